TILEGEN_DEVICE u32 cluster_rank() { return emulator::nvidia::cluster_rank(); }
