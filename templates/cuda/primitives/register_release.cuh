template <int kRegisters>
TILEGEN_DEVICE void register_release() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(kRegisters)); }
