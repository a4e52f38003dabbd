TILEGEN_DEVICE void tma_store_wait(int line = __builtin_LINE()) { emulator::nvidia::tma_store_wait(false, line); }
