TILEGEN_DEVICE void tma_store_{{ rank }}d(const CUtensorMap& map, const void* tile,{{ break }}{{ arguments }}) {
  asm volatile("cp.async.bulk.tensor.{{ rank }}d.global.shared::cta.bulk_group [%0, { {{- operands -}} }], [%1];"
               : : "l"(&map), "r"(shared_address(tile)), {{ constraints }} : "memory");
}
