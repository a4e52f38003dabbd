// s_waitcnt vmcnt(kPending): all but the last kPending loads of this wave have arrived, those to LDS too
template <int kPending>
TILEGEN_DEVICE void wait_loads() {
  __builtin_amdgcn_s_waitcnt((kPending & 15) | (kPending >> 4) << 14 | 0x0F70);  // expcnt and lgkmcnt are not waited for
}
