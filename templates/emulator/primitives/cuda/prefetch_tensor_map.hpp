TILEGEN_DEVICE void prefetch_tensor_map(const CUtensorMap& map, int line = __builtin_LINE()) {
  emulator::nvidia::prefetch_tensor_map(&map, line);
}
