template <int kRegisters>
TILEGEN_DEVICE void register_acquire() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(kRegisters)); }
