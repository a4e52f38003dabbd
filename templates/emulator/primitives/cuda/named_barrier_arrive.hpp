TILEGEN_DEVICE void named_barrier_arrive(int id, int threads, int line = __builtin_LINE()) {
  emulator::nvidia::named_barrier_arrive(id, threads, line);
}
