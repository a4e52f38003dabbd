// buffer_load ... lds: {{ isa }} ISA, "Vector Memory Operations". Lane l's {{ bytes }} bytes land at `tile` + {{ bytes }} l, `tile` being the
// same for the whole wave, and are there after wait_loads.
__device__ void tilegen_raw_buffer_load_lds(__attribute__((address_space(8))) void* resource,
                                            __attribute__((address_space(3))) void* tile, int bytes, int offset,
                                            int scalar_offset, int immediate_offset, int cache)
    __asm("llvm.amdgcn.raw.ptr.buffer.load.lds");

TILEGEN_DEVICE void buffer_load_lds_b{{ bits }}(void* tile, BufferResource resource, u32 offset) {
  tilegen_raw_buffer_load_lds(__builtin_bit_cast(__attribute__((address_space(8))) void*, resource),
                              (__attribute__((address_space(3))) void*)tile, {{ bytes }}, offset, 0, 0, 0);
}
