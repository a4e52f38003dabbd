TILEGEN_DEVICE void tma_store_{{ rank }}d{{ "_" ~ hint if hint }}(const CUtensorMap& map, const void* tile,{{ break }}{{ arguments }},
                                 int line = __builtin_LINE()) {
  const int coordinates[] = { {{- names -}} };
  emulator::nvidia::tma_store(&map, tile, {{ rank }}, coordinates, emulator::nvidia::Reduction::kNone, line);
}
