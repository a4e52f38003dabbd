TILEGEN_DEVICE void mbarrier_wait(u64& barrier, u32 phase, int line = __builtin_LINE()) {
  emulator::nvidia::mbarrier_wait(barrier, phase, line);
}
