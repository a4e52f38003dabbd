{% set policy = "createpolicy.fractional.L2::" ~ hint ~ ".b64 policy, 1.0;" %}
{% set called = "tma_load_" ~ rank ~ "d" ~ ("_" ~ hint if hint else "") %}
{% if multicast %}
// Every block in the mask gets the box, and the bytes at its barrier.
TILEGEN_DEVICE void {{ called }}_multicast(void* tile, const CUtensorMap& map,{{ break if hint else " " }}{{ arguments }},
                                          u64& barrier, unsigned short blocks) {
{% if hint %}
  asm volatile("{\n.reg .b64 policy;\n{{ policy }}\n"
               "cp.async.bulk.tensor.{{ rank }}d.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster.L2::cache_hint [%0], [%1, { {{- operands -}} }], [%{{ next_operand }}], %{{ last_operand }}, policy;\n}"
{% else %}
  asm volatile("cp.async.bulk.tensor.{{ rank }}d.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, { {{- operands -}} }], [%{{ next_operand }}], %{{ last_operand }};"
{% endif %}
               : : "r"(shared_address(tile)), "l"(&map), {{ constraints }},
                   "r"(shared_address(&barrier)), "h"(blocks) : "memory");
}
{% else %}
TILEGEN_DEVICE void {{ called }}(void* tile, const CUtensorMap& map, {{ arguments }},{{ break }}u64& barrier) {
{% if hint %}
  asm volatile("{\n.reg .b64 policy;\n{{ policy }}\n"
               "cp.async.bulk.tensor.{{ rank }}d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
               "[%0], [%1, { {{- operands -}} }], [%{{ next_operand }}], policy;\n}"
{% else %}
  asm volatile("cp.async.bulk.tensor.{{ rank }}d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, { {{- operands -}} }], [%{{ next_operand }}];"
{% endif %}
               : : "r"(shared_address(tile)), "l"(&map), {{ constraints }},
                   "r"(shared_address(&barrier)) : "memory");
}
{% endif %}
