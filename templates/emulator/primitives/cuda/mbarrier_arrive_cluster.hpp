TILEGEN_DEVICE void mbarrier_arrive_cluster(u64& barrier, u32 block, int line = __builtin_LINE()) {
  emulator::nvidia::mbarrier_arrive_cluster(barrier, block, line);
}
