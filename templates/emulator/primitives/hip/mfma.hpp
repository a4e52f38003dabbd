TILEGEN_DEVICE void {{ atom }}({{ operand }} a, {{ operand }} b, float (&c)[{{ registers }}], int line = __builtin_LINE()) {
  emulator::amd::mfma({ {{ m }}, {{ k }}, emulator::amd::Operand::k{{ "BF16" if element == "bf16" else "F16" }}}, c, &a, &b, line);
}
