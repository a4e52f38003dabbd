template <int kZero>
TILEGEN_DEVICE {{ pair }} {{ function }}(u32 word, int shift) {
  const auto nibble = [=](int at) { return float(int(word >> at & 15) - kZero); };
  return __floats2{{ "half2" if type == "f16" else "bfloat162" }}_rn(nibble(shift), nibble(shift + {{ apart }}));
}
