TILEGEN_DEVICE void mbarrier_init(u64& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}
