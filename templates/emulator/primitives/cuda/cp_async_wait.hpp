template <int kPending>
TILEGEN_DEVICE void cp_async_wait(int line = __builtin_LINE()) {
  emulator::nvidia::cp_async_wait(kPending, line);
}
