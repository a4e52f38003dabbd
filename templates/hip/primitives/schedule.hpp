// Scheduling hint, kTurns times: so many LDS reads, LDS writes and global loads, then kMfmas MFMAs. The masks are those
// of llvm.amdgcn.sched.group.barrier in LLVM's AMDGPU usage guide.
template <int kTurns, int kReads, int kWrites, int kLoads, int kMfmas>
TILEGEN_DEVICE void schedule() {
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    if constexpr (kReads > 0) __builtin_amdgcn_sched_group_barrier({{ ds_read }}, kReads, 0);
    if constexpr (kWrites > 0) __builtin_amdgcn_sched_group_barrier({{ ds_write }}, kWrites, 0);
    if constexpr (kLoads > 0) __builtin_amdgcn_sched_group_barrier({{ vmem_read }}, kLoads, 0);
    __builtin_amdgcn_sched_group_barrier({{ mfma }}, kMfmas, 0);
  }
}
