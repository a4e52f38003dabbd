{% set names = {"f32": "float", "f16": "half", "bf16": "__nv_bfloat16"} %}
{% set type_name = names[type] %}
TILEGEN_DEVICE void atomic_{{ op }}({{ type_name }}* address, {{ type_name }} value, int line = __builtin_LINE()) {
  emulator::atomic_update(
      address,
      [&]({{ type_name }} old) {
        return static_cast<float>(old) {{ "<" if op == "max" else ">" }} static_cast<float>(value) ? value : old;
      },
      line);
}
