{% if guarded %}
// Zeros where the source is not inside.
TILEGEN_DEVICE {{ type_name }} load_{{ hint }}(const {{ type_name }}* from, bool inside) {
  {{ type_name }} value = {};
  asm volatile("{\n.reg .b64 policy;\n.reg .pred p;\nsetp.ne.b32 p, %{{ count + 1 }}, 0;\n"
               "createpolicy.fractional.L2::{{ hint }}.b64 policy, 1.0;\n"
               "@p ld.global.L2::cache_hint.{{ width }} {{ loaded }}, [%{{ count }}], policy;\n}"
               : {{ kept }} : "l"(from), "r"(int(inside)) : "memory");
  return value;
}
{% else %}
TILEGEN_DEVICE {{ type_name }} load_{{ hint }}(const {{ type_name }}* from) {
  {{ type_name }} value;
  asm volatile("{\n.reg .b64 policy;\ncreatepolicy.fractional.L2::{{ hint }}.b64 policy, 1.0;\n"
               "ld.global.L2::cache_hint.{{ width }} {{ loaded }}, [%{{ count }}], policy;\n}"
               : {{ outputs }} : "l"(from) : "memory");
  return value;
}
{% endif %}
