template <int kTurns, int kReads, int kWrites, int kLoads, int kMfmas>
TILEGEN_DEVICE void schedule() {}
