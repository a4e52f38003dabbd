TILEGEN_DEVICE void hold_accumulators(float (&)[{{ registers }}]) {}
