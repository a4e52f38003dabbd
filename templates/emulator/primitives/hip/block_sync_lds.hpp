TILEGEN_DEVICE void block_sync_lds(int line = __builtin_LINE()) { emulator::synchronize_block(line); }
