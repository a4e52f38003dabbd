// cp.async.bulk.wait_group: PTX ISA 9.7.9.25. The thread's stores have reached global memory.
TILEGEN_DEVICE void tma_store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
