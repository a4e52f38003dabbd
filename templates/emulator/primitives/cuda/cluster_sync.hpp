TILEGEN_DEVICE void cluster_sync(int line = __builtin_LINE()) { emulator::nvidia::cluster_sync(line); }
