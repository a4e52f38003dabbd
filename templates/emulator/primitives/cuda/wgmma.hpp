{% if source == "SS" %}
template <Major kMajorA, Major kMajorB>
struct SM90_64x{{ n }}x16_F32{{ type_name }}{{ type_name }}_SS {
  static constexpr emulator::nvidia::Wgmma kShape = { {{- n }}, emulator::nvidia::Operand::k{{ type_name }},
                                                     kMajorA == Major::MN, kMajorB == Major::MN};
  static TILEGEN_DEVICE void fma(float (&d)[{{ registers }}], u64 a, u64 b, bool accumulate,
                                 int line = __builtin_LINE()) {
    emulator::nvidia::wgmma(kShape, d, a, nullptr, b, accumulate, line);
  }
};
{% else %}
template <Major kMajorB>
struct SM90_64x{{ n }}x16_F32{{ type_name }}{{ type_name }}_RS {
  static constexpr emulator::nvidia::Wgmma kShape = { {{- n }}, emulator::nvidia::Operand::k{{ type_name }}, false,
                                                     kMajorB == Major::MN};
  static TILEGEN_DEVICE void fma(float (&d)[{{ registers }}], const u32 (&a)[4], u64 b, bool accumulate,
                                 int line = __builtin_LINE()) {
    emulator::nvidia::wgmma(kShape, d, 0, a, b, accumulate, line);
  }
};
{% endif %}
