{% set names = {"f32": "float", "f16": "half", "bf16": "__nv_bfloat16"} %}
{% set type_name = names[type] %}
{% if type == "f32" %}
// Floats order like integers of their bits, backwards where the sign is set
TILEGEN_DEVICE void atomic_{{ op }}(float* address, float value) {
  if (__float_as_int(value) >= 0) {
    atomic{{ "Max" if op == "max" else "Min" }}(reinterpret_cast<int*>(address), __float_as_int(value));
  } else {
    atomic{{ "Min" if op == "max" else "Max" }}(reinterpret_cast<u32*>(address), __float_as_uint(value));
  }
}
{% else %}
// Compares and swaps until no other thread has come between
TILEGEN_DEVICE void atomic_{{ op }}({{ type_name }}* address, {{ type_name }} value) {
  unsigned short* bits = reinterpret_cast<unsigned short*>(address);
  unsigned short expected = *reinterpret_cast<volatile unsigned short*>(bits);
  unsigned short seen;
  do {
    seen = expected;
    {{ type_name }} old;
    *reinterpret_cast<unsigned short*>(&old) = seen;
    const {{ type_name }} best = __h{{ op }}(old, value);
    expected = atomicCAS(bits, seen, *reinterpret_cast<const unsigned short*>(&best));
  } while (expected != seen);
}
{% endif %}
