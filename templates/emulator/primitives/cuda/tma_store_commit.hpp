TILEGEN_DEVICE void tma_store_commit(int line = __builtin_LINE()) { emulator::nvidia::tma_store_commit(line); }
