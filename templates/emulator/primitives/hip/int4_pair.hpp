template <int kZero>
TILEGEN_DEVICE fp16x2 {{ function }}(u32 word, int shift) {
  const auto nibble = [=](int at) { return fp16(float(int(word >> at & 15) - kZero)); };
  return fp16x2{nibble(shift), nibble(shift + {{ apart }})};
}
