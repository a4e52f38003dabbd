template <int kRegisters>
TILEGEN_DEVICE void register_acquire(int line = __builtin_LINE()) {
  emulator::nvidia::register_acquire(kRegisters, line);
}
