TILEGEN_DEVICE void atomic_{{ op }}(float* address, float value, int line = __builtin_LINE()) {
  emulator::atomic_update(address, [&](float old) { return old {{ "<" if op == "max" else ">" }} value ? value : old; }, line);
}
