// fence.mbarrier_init: PTX ISA 9.7.13.4
TILEGEN_DEVICE void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
