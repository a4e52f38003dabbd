// Operands of inline assembly alone: the emulator's wgmma takes the array
