{% if source == "SS" %}
// wgmma.mma_async: PTX ISA 9.7.15.5. D[64, {{ n }}] (+)= A[64, 16] B[16, {{ n }}]; A and B in shared memory.
template <Major kMajorA, Major kMajorB>
struct SM90_64x{{ n }}x16_F32{{ type_name }}{{ type_name }}_SS {
  static TILEGEN_DEVICE void fma(float (&d)[{{ registers }}], u64 a, u64 b, bool accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, {{ predicate_operand }}, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n{{ n }}k16.f32.{{ a }}.{{ a }} "
        "{{ '{' }}{% for line in accumulators %}{{ line }}{{ ', "\n        "' if not loop.last else '' }}{% endfor %}{{ '}' }}, "
        "{{ a_operand }}, {{ b_operand }}, p, 1, 1, {{ transpose_a_operand }}, {{ transpose_b_operand }};\n}"
        : {% for line in constraints %}{{ line }}{{ ",\n          " if not loop.last else "" }}{% endfor %}

        : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(kMajorA)), "n"(int(kMajorB)));
  }
};
{% else %}
// wgmma.mma_async: PTX ISA 9.7.15.5. D[64, {{ n }}] (+)= A[64, 16] B[16, {{ n }}]; A in registers, B in shared memory.
template <Major kMajorB>
struct SM90_64x{{ n }}x16_F32{{ type_name }}{{ type_name }}_RS {
  static TILEGEN_DEVICE void fma(float (&d)[{{ registers }}], const u32 (&a)[4], u64 b, bool accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, {{ predicate_operand }}, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n{{ n }}k16.f32.{{ a }}.{{ a }} "
        "{{ '{' }}{% for line in accumulators %}{{ line }}{{ ', "\n        "' if not loop.last else '' }}{% endfor %}{{ '}' }}, "
        "{{ a_operand }}, {{ b_operand }}, p, 1, 1, {{ transpose_b_operand }};\n}"
        : {% for line in constraints %}{{ line }}{{ ",\n          " if not loop.last else "" }}{% endfor %}

        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(accumulate)), "n"(int(kMajorB)));
  }
};
{% endif %}
