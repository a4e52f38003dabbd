template <int kPending>
TILEGEN_DEVICE void warpgroup_wait(int line = __builtin_LINE()) {
  emulator::nvidia::warpgroup_wait(kPending, line);
}
