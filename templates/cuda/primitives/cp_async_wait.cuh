// At most kPending of the thread's groups are still under way.
template <int kPending>
TILEGEN_DEVICE void cp_async_wait() { asm volatile("cp.async.wait_group %0;" : : "n"(kPending) : "memory"); }
