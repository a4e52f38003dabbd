TILEGEN_DEVICE u32 count_in(u32& counter, u32 last, int line = __builtin_LINE()) {
  emulator::nvidia::fence_device();
  const u32 before = atomicInc(&counter, last, line);
  emulator::nvidia::fence_device();
  return before;
}
