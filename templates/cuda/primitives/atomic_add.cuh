{% if type == "f32" %}
// red: PTX ISA 9.7.13.6
TILEGEN_DEVICE void reduce_add(float* address, float value) {
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" : : "l"(address), "f"(value) : "memory");
}
{% elif type == "f16x2" %}
// red: PTX ISA 9.7.13.6. Each half is added atomically.
TILEGEN_DEVICE void reduce_add(half2* address, half2 value) {
  asm volatile("red.relaxed.gpu.global.add.noftz.f16x2 [%0], %1;"
               : : "l"(address), "r"(reinterpret_cast<const u32&>(value)) : "memory");
}
{% elif type == "bf16x2" %}
// red: PTX ISA 9.7.13.6. Each half is added atomically.
TILEGEN_DEVICE void reduce_add(__nv_bfloat162* address, __nv_bfloat162 value) {
  asm volatile("red.relaxed.gpu.global.add.noftz.bf16x2 [%0], %1;"
               : : "l"(address), "r"(reinterpret_cast<const u32&>(value)) : "memory");
}
{% elif type == "f32x2" %}
// red, vector form: PTX ISA 9.7.13.6. Each element is added atomically; the address is a multiple of 8 bytes.
TILEGEN_DEVICE void reduce_add_v2(float* address, float2 value) {
  asm volatile({{ '"red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};"' }}
               : : "l"(address), "f"(value.x), "f"(value.y) : "memory");
}
{% else %}
// red, vector form: PTX ISA 9.7.13.6. Each element is added atomically; the address is a multiple of 16 bytes.
TILEGEN_DEVICE void reduce_add_v4(float* address, float4 value) {
  asm volatile({{ '"red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};"' }}
               : : "l"(address), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w) : "memory");
}
{% endif %}
