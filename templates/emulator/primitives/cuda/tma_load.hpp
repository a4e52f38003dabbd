{% if multicast %}
TILEGEN_DEVICE void tma_load_{{ rank }}d_multicast(void* tile, const CUtensorMap& map, {{ arguments }},
                                          u64& barrier, unsigned short blocks, int line = __builtin_LINE()) {
  const int coordinates[] = { {{- names -}} };
  emulator::nvidia::tma_load_multicast(tile, &map, {{ rank }}, coordinates, barrier, blocks, line);
}
{% else %}
TILEGEN_DEVICE void tma_load_{{ rank }}d(void* tile, const CUtensorMap& map, {{ arguments }},
                                u64& barrier, int line = __builtin_LINE()) {
  const int coordinates[] = { {{- names -}} };
  emulator::nvidia::tma_load(tile, &map, {{ rank }}, coordinates, barrier, line);
}
{% endif %}
