{% if type == "f32" %}
// global_atomic_add_f32: {{ isa }} ISA, "Vector Memory Operations"
TILEGEN_DEVICE void reduce_add(float* address, float value) {
  __builtin_amdgcn_global_atomic_fadd_f32((__attribute__((address_space(1))) float*)address, value);
}
{% elif type == "f16x2" %}
// global_atomic_pk_add_f16: {{ isa }} ISA, "Vector Memory Operations". Each half is added atomically.
TILEGEN_DEVICE void reduce_add(fp16x2* address, fp16x2 value) {
  __builtin_amdgcn_global_atomic_fadd_v2f16((__attribute__((address_space(1))) fp16x2*)address, value);
}
{% else %}
// global_atomic_pk_add_bf16: {{ isa }} ISA, "Vector Memory Operations". Each half is added atomically.
TILEGEN_DEVICE void reduce_add(bf16x2* address, bf16x2 value) {
  using i16x2 = short __attribute__((ext_vector_type(2)));
  __builtin_amdgcn_global_atomic_fadd_v2bf16((__attribute__((address_space(1))) i16x2*)address,
                                             __builtin_bit_cast(i16x2, value));
}
{% endif %}
