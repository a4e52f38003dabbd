// Adds the tile; elements out of range are dropped.
TILEGEN_DEVICE void tma_reduce_add_{{ rank }}d(const CUtensorMap& map, const void* tile,{{ break }}{{ arguments }}) {
  asm volatile("cp.reduce.async.bulk.tensor.{{ rank }}d.global.shared::cta.add.tile.bulk_group "
               "[%0, { {{- operands -}} }], [%1];"
               : : "l"(&map), "r"(shared_address(tile)), {{ constraints }} : "memory");
}
