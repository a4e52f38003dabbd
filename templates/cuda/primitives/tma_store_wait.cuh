// The thread's stores have reached global memory.
TILEGEN_DEVICE void tma_store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
