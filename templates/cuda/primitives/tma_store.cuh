TILEGEN_DEVICE void tma_store_{{ rank }}d{{ "_" ~ hint if hint }}(const CUtensorMap& map, const void* tile,{{ break }}{{ arguments }}) {
{% if hint %}
  asm volatile("{\n.reg .b64 policy;\ncreatepolicy.fractional.L2::{{ hint }}.b64 policy, 1.0;\n"
               "cp.async.bulk.tensor.{{ rank }}d.global.shared::cta.bulk_group.L2::cache_hint "
               "[%0, { {{- operands -}} }], [%1], policy;\n}"
{% else %}
  asm volatile("cp.async.bulk.tensor.{{ rank }}d.global.shared::cta.bulk_group [%0, { {{- operands -}} }], [%1];"
{% endif %}
               : : "l"(&map), "r"(shared_address(tile)), {{ constraints }} : "memory");
}
