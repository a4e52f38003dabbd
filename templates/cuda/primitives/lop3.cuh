// lop3: PTX ISA 9.7.8.6. Bit i of the result is bit 4 a_i + 2 b_i + c_i of the table.
template <int kTable>
TILEGEN_DEVICE u32 lop3(u32 a, u32 b, u32 c) {
  u32 d;
  asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(d) : "r"(a), "r"(b), "r"(c), "n"(kTable));
  return d;
}
