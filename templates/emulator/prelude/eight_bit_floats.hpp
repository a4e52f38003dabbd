// __nv_fp8_e4m3 and __nv_fp8_e5m2: stored in a byte, computed with as float. Conversion rounds to nearest even and
// saturates to the largest finite value, as the types' constructors do. CUDA Math API, "FP8 Intrinsics"; the formats are
// those of the OCP 8-bit Floating Point Specification.
#pragma once

#include <cmath>
#include <cstdint>

namespace emulator {

template <int kExponentBits, int kMantissaBits, unsigned kLargest>
struct EightBitFloat {
  std::uint8_t bits;

  EightBitFloat() = default;
  explicit EightBitFloat(float value) : bits(encode(value)) {}
  explicit operator float() const { return (bits & 0x80) ? -magnitude(bits & 0x7F) : magnitude(bits & 0x7F); }

 private:
  static constexpr unsigned kNotANumber = 0x7F;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;

  static float magnitude(unsigned code) {
    if (code > kLargest) return kExponentBits == 5 && code == kLargest + 1 ? INFINITY : NAN;
    const int exponent = int(code >> kMantissaBits);
    const int mantissa = int(code & ((1u << kMantissaBits) - 1));
    if (exponent == 0) return std::ldexp(float(mantissa), 1 - kBias - kMantissaBits);
    return std::ldexp(float(mantissa + (1 << kMantissaBits)), exponent - kBias - kMantissaBits);
  }

  // Codes of magnitudes are in the order of their values: the nearest one is next to where the value belongs.
  static std::uint8_t encode(float value) {
    if (std::isnan(value)) return kNotANumber;
    const unsigned sign = std::signbit(value) ? 0x80 : 0;
    const double wanted = std::fabs(value);
    unsigned below = 0, above = kLargest;
    if (wanted >= magnitude(above)) return std::uint8_t(sign | above);
    while (above - below > 1) {
      const unsigned middle = (below + above) / 2;
      (magnitude(middle) <= wanted ? below : above) = middle;
    }
    const double low = wanted - magnitude(below), high = magnitude(above) - wanted;
    const bool up = high < low || (high == low && above % 2 == 0);
    return std::uint8_t(sign | (up ? above : below));
  }
};

}  // namespace emulator

using __nv_fp8_e4m3 = emulator::EightBitFloat<4, 3, 0x7E>;
using __nv_fp8_e5m2 = emulator::EightBitFloat<5, 2, 0x7B>;
