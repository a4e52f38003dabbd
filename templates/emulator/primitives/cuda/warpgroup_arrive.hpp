TILEGEN_DEVICE void warpgroup_arrive(int line = __builtin_LINE()) { emulator::nvidia::warpgroup_arrive(line); }
