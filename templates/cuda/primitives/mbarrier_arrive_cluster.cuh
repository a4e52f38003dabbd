// At the same barrier of another block of the cluster; mapa: PTX ISA 9.7.9.23
TILEGEN_DEVICE void mbarrier_arrive_cluster(u64& barrier, u32 block) {
  asm volatile("{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}"
               : : "r"(shared_address(&barrier)), "r"(block) : "memory");
}
