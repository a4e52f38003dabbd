// wgmma.commit_group: PTX ISA 9.7.15.7
TILEGEN_DEVICE void warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
