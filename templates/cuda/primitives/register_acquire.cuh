// setmaxnreg: PTX ISA 9.7.19.5. Waits until the block's pool can give the warpgroup this many registers a thread.
template <int kRegisters>
TILEGEN_DEVICE void register_acquire() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(kRegisters)); }
