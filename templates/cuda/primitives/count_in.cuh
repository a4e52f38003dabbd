// atom: PTX ISA 9.7.13.5. Counts the block in, up to last and on to 0; after it, the block sees what those wrote who
// have counted before. A barrier in front makes all threads' writes part of what is released.
TILEGEN_DEVICE u32 count_in(u32& counter, u32 last) {
  u32 before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before) : "l"(__cvta_generic_to_global(&counter)), "r"(last) : "memory");
  return before;
}
