TILEGEN_DEVICE void mbarrier_init(u64& barrier, int arrivals, int line = __builtin_LINE()) {
  emulator::nvidia::mbarrier_init(barrier, arrivals, line);
}
