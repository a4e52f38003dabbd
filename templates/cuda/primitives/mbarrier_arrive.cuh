TILEGEN_DEVICE void mbarrier_arrive(u64& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(shared_address(&barrier)) : "memory");
}
