// cp.async.commit_group: PTX ISA 9.7.9.25
TILEGEN_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
