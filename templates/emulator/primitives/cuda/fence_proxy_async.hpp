TILEGEN_DEVICE void fence_proxy_async(int line = __builtin_LINE()) { emulator::nvidia::fence_proxy_async(line); }
