TILEGEN_DEVICE void mbarrier_arrive_expect_tx(u64& barrier, u32 bytes) {  // the phase ends after so many bytes more
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               : : "r"(shared_address(&barrier)), "r"(bytes) : "memory");
}
