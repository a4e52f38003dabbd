// prefetch.tensormap: PTX ISA 9.7.9.15
TILEGEN_DEVICE void prefetch_tensor_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" : : "l"(&map) : "memory");
}
