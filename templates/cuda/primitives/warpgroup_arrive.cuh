// wgmma.fence: PTX ISA 9.7.15.7
TILEGEN_DEVICE void warpgroup_arrive() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
