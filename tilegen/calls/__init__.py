"""What a call brings, for the runtime and the emulator alike: arrays, numbers, and the contract that they meet."""
