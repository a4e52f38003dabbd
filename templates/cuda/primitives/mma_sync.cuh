// mma.m16n8k16: PTX ISA 9.7.14.5.8. D[16, 8] += A[16, 16] B[16, 8]; A row-major, B column-major.
struct SM80_16x8x16_F32{{ type_name }}{{ type_name }}F32_TN {
  static TILEGEN_DEVICE void fma(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.{{ a }}.{{ a }}.f32 "
                 {{ '"{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"' }}
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};
