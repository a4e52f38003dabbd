TILEGEN_DEVICE void fence_barrier_init(int line = __builtin_LINE()) { emulator::nvidia::fence_barrier_init(line); }
