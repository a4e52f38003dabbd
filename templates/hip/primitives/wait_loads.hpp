// s_waitcnt vmcnt(kPending): all but the last kPending loads of this wave have arrived, those to LDS among them
template <int kPending>
TILEGEN_DEVICE void wait_loads() {
  constexpr int kOthers = 0x0F70;  // expcnt and lgkmcnt: not waited for
  __builtin_amdgcn_s_waitcnt(kOthers | (kPending & 15) | (kPending >> 4) << 14);
}
