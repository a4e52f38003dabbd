TILEGEN_DEVICE void tma_store_wait_read(int line = __builtin_LINE()) { emulator::nvidia::tma_store_wait(true, line); }
