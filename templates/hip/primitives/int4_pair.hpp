{% if apart == 16 %}
// Nibbles shift / 4 and shift / 4 + 4 of a word less kZero, exactly: 0x6400 | q is 1024 + q.
// shift, a constant below 16, costs an instruction where it is not below 8.
template <int kZero>
TILEGEN_DEVICE fp16x2 {{ function }}(u32 word, int shift) {
  const u32 mask = shift & 4 ? 0x00F000F0u : 0x000F000Fu;
  const fp16x2 value = __builtin_bit_cast(fp16x2, ((word >> (shift & 8)) & mask) | 0x64006400u);
  if (shift & 4) return value * fp16(0.0625f) - fp16(64.0f + kZero);  // 1024 + 16 q
  return value - fp16(1024.0f + kZero);
}
{% else %}
// Nibbles shift / 4 and shift / 4 + 1 of a word less kZero, exactly: 0x6400 | q is 1024 + q.
// shift is a multiple of 8.
template <int kZero>
TILEGEN_DEVICE fp16x2 {{ function }}(u32 word, int shift) {
  const u32 bytes = __builtin_amdgcn_perm(word >> 4, word, 0x0C040C00u + 0x00010001u * (shift / 8));
  return __builtin_bit_cast(fp16x2, (bytes & 0x000F000Fu) | 0x64006400u) - fp16(1024.0f + kZero);
}
{% endif %}
