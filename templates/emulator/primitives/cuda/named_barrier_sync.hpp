TILEGEN_DEVICE void named_barrier_sync(int id, int threads, int line = __builtin_LINE()) {
  emulator::nvidia::named_barrier_sync(id, threads, line);
}
