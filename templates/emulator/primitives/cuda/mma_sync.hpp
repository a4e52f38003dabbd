struct SM80_16x8x16_F32{{ type_name }}{{ type_name }}F32_TN {
  static TILEGEN_DEVICE void fma(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2], int line = __builtin_LINE()) {
    emulator::nvidia::mma_m16n8k16(d, a, b, emulator::nvidia::Operand::k{{ type_name }}, line);
  }
};
