TILEGEN_DEVICE u32 shared_address(const void* pointer, int line = __builtin_LINE()) {
  return emulator::shared_address(pointer, line);
}
