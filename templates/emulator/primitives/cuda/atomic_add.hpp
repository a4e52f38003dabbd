{% if type == "f32" %}
TILEGEN_DEVICE void reduce_add(float* address, float value, int line = __builtin_LINE()) {
  atomicAdd(address, value, line);
}
{% elif type == "f16x2" %}
TILEGEN_DEVICE void reduce_add(half2* address, half2 value, int line = __builtin_LINE()) {
  atomicAdd(address, value, line);
}
{% elif type == "bf16x2" %}
TILEGEN_DEVICE void reduce_add(__nv_bfloat162* address, __nv_bfloat162 value, int line = __builtin_LINE()) {
  atomicAdd(address, value, line);
}
{% elif type == "f32x2" %}
TILEGEN_DEVICE void reduce_add_v2(float* address, float2 value, int line = __builtin_LINE()) {
  emulator::atomic_update(
      reinterpret_cast<float2*>(address), [&](float2 old) { return float2{old.x + value.x, old.y + value.y}; }, line);
}
{% else %}
TILEGEN_DEVICE void reduce_add_v4(float* address, float4 value, int line = __builtin_LINE()) {
  emulator::atomic_update(
      reinterpret_cast<float4*>(address),
      [&](float4 old) { return float4{old.x + value.x, old.y + value.y, old.z + value.z, old.w + value.w}; }, line);
}
{% endif %}
