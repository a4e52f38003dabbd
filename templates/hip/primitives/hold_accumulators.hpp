// Keeps a block of C in accumulation registers up to here. Else the compiler moves all blocks to vector registers where
// the loop ends, long before they are used.
TILEGEN_DEVICE void hold_accumulators(float (&c)[{{ registers }}]) {
  fp32x{{ registers }} block;
  __builtin_memcpy(&block, c, sizeof(block));
  asm volatile("" : "+a"(block));
  __builtin_memcpy(c, &block, sizeof(block));
}
