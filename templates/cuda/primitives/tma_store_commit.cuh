// cp.async.bulk.commit_group: PTX ISA 9.7.9.25
TILEGEN_DEVICE void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
