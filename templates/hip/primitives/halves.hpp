// The halves of a lane's 8 neighbours along k: one instruction multiplies the low ones, another the high ones
TILEGEN_DEVICE {{ type }}x4 low_half({{ type }}x8 value) { return value.lo; }
TILEGEN_DEVICE {{ type }}x4 high_half({{ type }}x8 value) { return value.hi; }
