template <int kPending>  // at most kPending of the warpgroup's groups are still under way
TILEGEN_DEVICE void warpgroup_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(kPending) : "memory"); }
