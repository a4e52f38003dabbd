template <int kPending>  // at most kPending of the thread's groups are still under way
TILEGEN_DEVICE void cp_async_wait() { asm volatile("cp.async.wait_group %0;" : : "n"(kPending) : "memory"); }
