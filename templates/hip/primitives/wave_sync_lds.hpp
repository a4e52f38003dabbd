// What the lanes of a wave wrote to LDS, they may read after it: a wave's LDS instructions are executed in order, so
// that only the compiler must keep that order. {{ isa }} ISA, "Data Share Operations".
TILEGEN_DEVICE void wave_sync_lds() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
