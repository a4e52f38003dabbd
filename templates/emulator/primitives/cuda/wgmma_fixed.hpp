struct SM90_64x{{ n }}x16_F32{{ type_name }}{{ type_name }}_{{ source }} {
  static constexpr emulator::nvidia::Wgmma kShape = { {{- n }}, emulator::nvidia::Operand::k{{ type_name }},
                                                     {{ transposes.replace(", ", " == 1, ") if source == "SS" else "false, " ~ transposes }} == 1};
  static TILEGEN_DEVICE void fma(float (&d)[{{ registers }}], {{ "u64 a" if source == "SS" else "const u32 (&a)[4]" }}, u64 b, bool accumulate,
                                 int line = __builtin_LINE()) {
    emulator::nvidia::wgmma(kShape, d, {{ "a, nullptr" if source == "SS" else "0, a" }}, b, accumulate, line);
  }
};
