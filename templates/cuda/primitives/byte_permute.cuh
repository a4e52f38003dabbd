// prmt: PTX ISA 9.7.9.7. Byte i of the result is the byte of {b, a} that nibble i of the selector names.
TILEGEN_DEVICE u32 byte_permute(u32 a, u32 b, u32 selector) {
  u32 d;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(selector));
  return d;
}
