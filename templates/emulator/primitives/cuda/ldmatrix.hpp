TILEGEN_DEVICE void ldmatrix_{{ suffix }}(u32 (&fragment)[{{ count }}], const void* row, int line = __builtin_LINE()) {
  emulator::nvidia::ldmatrix(fragment, row, {{ count }}, {{ "true" if transpose else "false" }}, line);
}
