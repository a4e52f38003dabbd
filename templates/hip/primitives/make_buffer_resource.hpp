// Buffer instructions: {{ isa }} ISA, "Vector Memory Operations". Offsets are bytes; past the end of the resource, loads
// return 0 and stores are dropped.
using BufferResource = __amdgpu_buffer_rsrc_t;

TILEGEN_DEVICE BufferResource make_buffer_resource(const void* origin, u32 bytes) {
  constexpr int kRawBuffer = 0x00027000;  // word 3: untyped, 32-bit data format
  return __builtin_amdgcn_make_buffer_rsrc(const_cast<void*>(origin), 0, bytes, kRawBuffer);
}
