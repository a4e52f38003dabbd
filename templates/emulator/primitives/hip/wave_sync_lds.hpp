TILEGEN_DEVICE void wave_sync_lds(int line = __builtin_LINE()) { emulator::synchronize_wave(~0ull, line); }
