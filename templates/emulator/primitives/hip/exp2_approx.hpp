TILEGEN_DEVICE float exp2_approx(float x) {
  const float y = exp2f(x);
  return y < 1.17549435e-38f ? 0.0f : y;  // subnormal results are flushed
}
