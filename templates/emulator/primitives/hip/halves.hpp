TILEGEN_DEVICE {{ type }}x4 low_half({{ type }}x8 value) { return emulator::half_of(value, 0); }
TILEGEN_DEVICE {{ type }}x4 high_half({{ type }}x8 value) { return emulator::half_of(value, 4); }
