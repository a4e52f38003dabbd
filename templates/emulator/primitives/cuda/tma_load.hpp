{% set called = "tma_load_" ~ rank ~ "d" ~ ("_" ~ hint if hint else "") %}
{% if multicast %}
TILEGEN_DEVICE void {{ called }}_multicast(void* tile, const CUtensorMap& map,{{ break if hint else " " }}{{ arguments }},
                                          u64& barrier, unsigned short blocks, int line = __builtin_LINE()) {
  const int coordinates[] = { {{- names -}} };
  emulator::nvidia::tma_load_multicast(tile, &map, {{ rank }}, coordinates, barrier, blocks, line);
}
{% else %}
TILEGEN_DEVICE void {{ called }}(void* tile, const CUtensorMap& map,{{ break if hint else " " }}{{ arguments }},
                                u64& barrier, int line = __builtin_LINE()) {
  const int coordinates[] = { {{- names -}} };
  emulator::nvidia::tma_load(tile, &map, {{ rank }}, coordinates, barrier, line);
}
{% endif %}
