{% if multicast %}
// Every block in the mask gets the box, and the bytes at its barrier.
TILEGEN_DEVICE void tma_load_{{ rank }}d_multicast(void* tile, const CUtensorMap& map, {{ arguments }},
                                          u64& barrier, unsigned short blocks) {
  asm volatile("cp.async.bulk.tensor.{{ rank }}d.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, { {{- operands -}} }], [%{{ next_operand }}], %{{ last_operand }};"
               : : "r"(shared_address(tile)), "l"(&map), {{ constraints }},
                   "r"(shared_address(&barrier)), "h"(blocks) : "memory");
}
{% else %}
TILEGEN_DEVICE void tma_load_{{ rank }}d(void* tile, const CUtensorMap& map, {{ arguments }},{{ break }}u64& barrier) {
  asm volatile("cp.async.bulk.tensor.{{ rank }}d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, { {{- operands -}} }], [%{{ next_operand }}];"
               : : "r"(shared_address(tile)), "l"(&map), {{ constraints }},
                   "r"(shared_address(&barrier)) : "memory");
}
{% endif %}
