TILEGEN_DEVICE void warpgroup_commit(int line = __builtin_LINE()) { emulator::nvidia::warpgroup_commit(line); }
