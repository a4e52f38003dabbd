// cp.async.bulk.wait_group: PTX ISA 9.7.9.25. The thread's stores have read shared memory.
TILEGEN_DEVICE void tma_store_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
