// buffer_load ... lds: {{ isa }} ISA, "Vector Memory Operations". Lane l's {{ bytes }} bytes land at tile + {{ bytes }} l, where `tile` is
// the same for the whole wave, and are there after wait_loads. Assembly, as the builtin would make each later LDS read
// wait for all loads; m0 is read one wait state after it is written.
TILEGEN_DEVICE void buffer_load_lds_b{{ bits }}(void* tile, BufferResource resource, u32 offset) {
  const u32 base = u32(reinterpret_cast<u64>((__attribute__((address_space(3))) void*)tile));
  asm volatile(
      "s_mov_b32 m0, %0\n"
      "s_nop 0\n"
      "buffer_load_{{ instruction }} %1, %2, 0 offen lds"
      :
      : "s"(__builtin_amdgcn_readfirstlane(base)), "v"(offset), "s"(resource)
      : "memory");
}
