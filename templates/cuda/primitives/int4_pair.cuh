{% if apart == 16 %}
// Nibbles shift / 4 and shift / 4 + 4 of a word less kZero, exactly: {{ magic }} | q is {{ base }} + q.
// shift, a constant below 16, costs an instruction where it is not below 8.
template <int kZero>
TILEGEN_DEVICE {{ pair }} {{ function }}(u32 word, int shift) {
{% if type == "f16" %}
  if (shift & 4) {  // 1024 + 16 q
    const u32 bits = lop3<0xEA>(word >> (shift & 8), 0x00F000F0, {{ magic_pair }});
    return __hfma2(reinterpret_cast<const {{ pair }}&>(bits), {{ repeat }}(0.0625f), {{ repeat }}(-64.0f - kZero));
  }
  const u32 bits = lop3<0xEA>(word >> (shift & 8), 0x000F000F, {{ magic_pair }});
{% else %}
  const u32 bits = lop3<0xEA>(word >> shift, 0x000F000F, {{ magic_pair }});
{% endif %}
  return __hsub2(reinterpret_cast<const {{ pair }}&>(bits), {{ repeat }}({{ base }}.0f + kZero));
}
{% else %}
// Nibbles shift / 4 and shift / 4 + 1 of a word less kZero, exactly: {{ magic }} | q is {{ base }} + q.
// shift is a multiple of 8.
template <int kZero>
TILEGEN_DEVICE {{ pair }} {{ function }}(u32 word, int shift) {
  const u32 bytes = byte_permute(word, word >> 4, 0x0400 + 0x0101 * (shift / 8));
  const u32 bits = lop3<0xEA>(bytes, 0x000F000F, {{ magic_pair }});
  return __hsub2(reinterpret_cast<const {{ pair }}&>(bits), {{ repeat }}({{ base }}.0f + kZero));
}
{% endif %}
