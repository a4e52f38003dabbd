// IEEE binary16 and bfloat16 as bits: exact conversions, rounding to nearest even.
#pragma once

#include <cstdint>
#include <cstring>

namespace emulator {

inline std::uint32_t float_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float bits_float(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 1023;
  if (exponent == 31) return bits_float(sign | 0x7F800000 | mantissa << 13);
  if (exponent == 0) {
    const float magnitude = float(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return bits_float(sign | (exponent + 112) << 23 | mantissa << 13);
}

inline std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = float_bits(value), magnitude = bits & 0x7FFFFFFF;
  const std::uint16_t sign = std::uint16_t(bits >> 16 & 0x8000);
  if (magnitude > 0x7F800000) return 0x7FFF;  // NaN, as the hardware writes it
  if (magnitude >= 0x477FF000) return sign | 0x7C00;
  if (magnitude >= 0x38800000) {  // normal: drop 13 bits of the mantissa
    const std::uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
    return std::uint16_t(sign | (rounded - (std::uint32_t(112) << 23)) >> 13);
  }
  if (magnitude < 0x33000000) return sign;
  const int shift = 126 - int(magnitude >> 23);  // subnormal: 14 to 24 bits are dropped
  const std::uint32_t mantissa = (magnitude & 0x7FFFFF) | 0x800000;
  const std::uint32_t half_way = std::uint32_t(1) << (shift - 1), rest = mantissa & ((half_way << 1) - 1);
  std::uint32_t result = mantissa >> shift;
  if (rest > half_way || (rest == half_way && (result & 1) != 0)) ++result;
  return std::uint16_t(sign | result);
}

inline float bfloat_to_float(std::uint16_t bfloat) { return bits_float(std::uint32_t(bfloat) << 16); }

inline std::uint16_t float_to_bfloat(float value) {
  const std::uint32_t bits = float_bits(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return 0x7FFF;  // NaN, as the hardware writes it
  return std::uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// The float next to the value that is odd where it is not exact, so that one more rounding is right
inline float round_to_odd(double value) {
  float rounded = float(value);
  if (double(rounded) == value || value != value) return rounded;
  std::uint32_t bits = float_bits(rounded);
  const double magnitude = value < 0 ? -value : value;
  const double rounded_magnitude = rounded < 0 ? -double(rounded) : double(rounded);
  if (rounded_magnitude > magnitude) --bits;
  return bits_float(bits | 1);
}

}  // namespace emulator
