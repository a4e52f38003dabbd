template <int kPending>
TILEGEN_DEVICE void wait_loads(int line = __builtin_LINE()) {
  emulator::amd::wait_loads(kPending, line);
}
