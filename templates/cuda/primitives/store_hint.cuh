TILEGEN_DEVICE void store_{{ hint }}({{ type_name }}* to, {{ type_name }} value) {
  asm volatile("{\n.reg .b64 policy;\ncreatepolicy.fractional.L2::{{ hint }}.b64 policy, 1.0;\n"
               "st.global.L2::cache_hint.{{ width }} [%0], {{ stored }}, policy;\n}"
               : : "l"(to), {{ inputs }} : "memory");
}
