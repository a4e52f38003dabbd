TILEGEN_DEVICE void stmatrix_{{ suffix }}(void* row, const u32 (&fragment)[{{ count }}], int line = __builtin_LINE()) {
  emulator::nvidia::stmatrix(row, fragment, {{ count }}, {{ "true" if transpose else "false" }}, line);
}
