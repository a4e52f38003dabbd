template <{{ "Major kMajorA, " if source == "SS" }}Major kMajorB>
struct SM90_64x{{ n }}x16_F32{{ type_name }}{{ type_name }}_{{ source }} {  // D[64, {{ n }}] (+)= A[64, 16] B[16, {{ n }}]; {{ "A and B in shared memory" if source == "SS" else "A in registers, B in shared memory" }}
  static TILEGEN_DEVICE void fma(float (&d)[{{ registers }}], {{ "u64 a" if source == "SS" else "const u32 (&a)[4]" }}, u64 b, bool accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, {{ predicate_operand }}, 0;\nwgmma.mma_async.sync.aligned.m64n{{ n }}k16.f32.{{ a }}.{{ a }} "
                 TILEGEN_D{{ registers }} ", {{ a_operand }}, {{ b_operand }}, p, 1, 1, {{ transposes }};\n}"
                 : TILEGEN_OPERANDS_D{{ registers }}(d)
                 : {{ a_constraint }}, "l"(b), "r"(int(accumulate)){{ ', "n"(int(kMajorA))' if source == "SS" }}, "n"(int(kMajorB)));
  }
};
