// setmaxnreg: PTX ISA 9.7.19.5. Gives registers of the warpgroup back to the block's pool.
template <int kRegisters>
TILEGEN_DEVICE void register_release() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(kRegisters)); }
