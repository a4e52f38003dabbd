TILEGEN_DEVICE void mbarrier_wait(u64& barrier, u32 phase) {  // until the phase of this parity has ended
  asm volatile("{\n.reg .pred p;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra WAIT;\n}"
               : : "r"(shared_address(&barrier)), "r"(phase) : "memory");
}
