TILEGEN_DEVICE void buffer_load_lds_b{{ bits }}(void* tile, BufferResource resource, u32 offset, int line = __builtin_LINE()) {
  emulator::amd::load_lds(tile, resource, offset, {{ bytes }}, line);
}
