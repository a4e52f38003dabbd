{% if type == "f32" %}
TILEGEN_DEVICE void reduce_add(float* address, float value, int line = __builtin_LINE()) {
  emulator::atomic_update(address, [&](float old) { return old + value; }, line);
}
{% else %}
{% set pair = "fp16x2" if type == "f16x2" else "bf16x2" %}
TILEGEN_DEVICE void reduce_add({{ pair }}* address, {{ pair }} value, int line = __builtin_LINE()) {
  emulator::atomic_update(
      address,
      [&]({{ pair }} old) {
        {{ pair }} sum = old;
        for (int i = 0; i < 2; ++i) sum[i] = static_cast<{{ pair[:-2] }}>(static_cast<float>(old[i]) + static_cast<float>(value[i]));
        return sum;
      },
      line);
}
{% endif %}
