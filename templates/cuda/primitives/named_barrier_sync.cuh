// bar.sync: PTX ISA 9.7.13.1. Barrier 0 is that of __syncthreads.
TILEGEN_DEVICE void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" : : "r"(id), "r"(threads) : "memory");
}
