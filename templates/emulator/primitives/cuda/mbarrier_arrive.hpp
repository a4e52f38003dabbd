TILEGEN_DEVICE void mbarrier_arrive(u64& barrier, int line = __builtin_LINE()) {
  emulator::nvidia::mbarrier_arrive(barrier, line);
}
