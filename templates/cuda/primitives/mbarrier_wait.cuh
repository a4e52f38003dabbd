// Waits until the phase of this parity has ended.
TILEGEN_DEVICE void mbarrier_wait(u64& barrier, u32 phase) {
  asm volatile("{\n.reg .pred done;\nWAIT:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra WAIT;\n}"
               : : "r"(shared_address(&barrier)), "r"(phase) : "memory");
}
