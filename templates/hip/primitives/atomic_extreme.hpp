// Floats order like integers of their bits, backwards where the sign is set
TILEGEN_DEVICE void atomic_{{ op }}(float* address, float value) {
  const int bits = __builtin_bit_cast(int, value);
  if (bits >= 0) {
    atomic{{ "Max" if op == "max" else "Min" }}(reinterpret_cast<int*>(address), bits);
  } else {
    atomic{{ "Min" if op == "max" else "Max" }}(reinterpret_cast<u32*>(address), static_cast<u32>(bits));
  }
}
