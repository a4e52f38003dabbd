template <int kRegisters>
TILEGEN_DEVICE void register_release(int line = __builtin_LINE()) {
  emulator::nvidia::register_release(kRegisters, line);
}
