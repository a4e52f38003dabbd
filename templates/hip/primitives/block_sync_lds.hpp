// s_waitcnt lgkmcnt(0), s_barrier: {{ isa }} ISA, "Program Flow Control". It waits for LDS only: global loads stay in
// flight. Nothing is scheduled across it: MFMAs, where there are any, stay in the phase whose memory traffic they hide.
TILEGEN_DEVICE void block_sync_lds() {
  __builtin_amdgcn_sched_barrier(0);
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  __builtin_amdgcn_sched_barrier(0);
}
