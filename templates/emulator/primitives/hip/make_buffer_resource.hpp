using BufferResource = emulator::amd::Resource;

TILEGEN_DEVICE BufferResource make_buffer_resource(const void* origin, u32 bytes) {
  return {static_cast<char*>(const_cast<void*>(origin)), bytes};
}
