template <int kTable>
TILEGEN_DEVICE u32 lop3(u32 a, u32 b, u32 c) {
  u32 d = 0;
  for (int row = 0; row < 8; ++row)
    if (kTable >> row & 1) d |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
  return d;
}
