TILEGEN_DEVICE void mbarrier_arrive_expect_tx(u64& barrier, u32 bytes, int line = __builtin_LINE()) {
  emulator::nvidia::mbarrier_arrive_expect_tx(barrier, bytes, line);
}
