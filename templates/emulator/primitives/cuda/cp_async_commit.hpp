TILEGEN_DEVICE void cp_async_commit(int line = __builtin_LINE()) { emulator::nvidia::cp_async_commit(line); }
