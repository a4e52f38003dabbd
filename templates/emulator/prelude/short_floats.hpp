// half, half2, __nv_bfloat16 and __nv_bfloat162: arithmetic is done in a wider type and rounded once, as the hardware
// does. Names and meanings: CUDA Math API, "Half precision" and "Bfloat16 precision" intrinsics.
#pragma once

#include "common.hpp"
#include "vectors.hpp"

namespace emulator {

struct HalfFormat {
  static float decode(std::uint16_t bits) { return half_to_float(bits); }
  static std::uint16_t encode(float value) { return float_to_half(value); }
};

struct BfloatFormat {
  static float decode(std::uint16_t bits) { return bfloat_to_float(bits); }
  static std::uint16_t encode(float value) { return float_to_bfloat(value); }
};

template <class Format>
struct ShortFloat {
  std::uint16_t bits;

  ShortFloat() = default;
  ShortFloat(float value) : bits(Format::encode(value)) {}
  ShortFloat(double value) : bits(Format::encode(round_to_odd(value))) {}
  ShortFloat(int value) : ShortFloat(double(value)) {}
  ShortFloat(unsigned value) : ShortFloat(double(value)) {}
  ShortFloat(long long value) : ShortFloat(double(value)) {}
  ShortFloat(unsigned long long value) : ShortFloat(double(value)) {}
  ShortFloat(long value) : ShortFloat(double(value)) {}
  ShortFloat(unsigned long value) : ShortFloat(double(value)) {}
  ShortFloat(short value) : ShortFloat(float(value)) {}
  ShortFloat(unsigned short value) : ShortFloat(float(value)) {}
  operator float() const { return Format::decode(bits); }

  static ShortFloat from_bits(std::uint16_t bits) {
    ShortFloat value;
    value.bits = bits;
    return value;
  }
};

template <class Format>
struct alignas(4) ShortFloat2 {
  ShortFloat<Format> x, y;

  ShortFloat2() = default;
  ShortFloat2(ShortFloat<Format> low, ShortFloat<Format> high) : x(low), y(high) {}
};

template <class F>
ShortFloat<F> rounded(double value) {
  return ShortFloat<F>(value);
}

template <class F>
double wide(ShortFloat<F> value) {
  return double(float(value));
}

template <class F, class Function>
ShortFloat2<F> each(ShortFloat2<F> a, Function function) {
  return {function(a.x), function(a.y)};
}
template <class F, class Function>
ShortFloat2<F> each(ShortFloat2<F> a, ShortFloat2<F> b, Function function) {
  return {function(a.x, b.x), function(a.y, b.y)};
}

// ---- Operators --------------------------------------------------------------------------------------------------

#define EMULATOR_OPERATOR(op, narrow)                                           \
  template <class F>                                                            \
  ShortFloat<F> operator op(ShortFloat<F> a, ShortFloat<F> b) {                 \
    return rounded<F>(wide(a) op wide(b));                                      \
  }                                                                             \
  template <class F>                                                            \
  ShortFloat<F>& operator op##=(ShortFloat<F>& a, ShortFloat<F> b) {            \
    return a = a op b;                                                          \
  }                                                                             \
  template <class F>                                                            \
  ShortFloat2<F> operator op(ShortFloat2<F> a, ShortFloat2<F> b) {              \
    return each(a, b, [](ShortFloat<F> p, ShortFloat<F> q) { return p op q; }); \
  }                                                                             \
  template <class F>                                                            \
  ShortFloat2<F>& operator op##=(ShortFloat2<F>& a, ShortFloat2<F> b) {         \
    return a = a op b;                                                          \
  }                                                                             \
  template <class F>                                                            \
  ShortFloat<F> narrow(ShortFloat<F> a, ShortFloat<F> b) {                      \
    return a op b;                                                              \
  }                                                                             \
  template <class F>                                                            \
  ShortFloat2<F> narrow##2(ShortFloat2<F> a, ShortFloat2<F> b) {                \
    return a op b;                                                              \
  }
EMULATOR_OPERATOR(+, __hadd)
EMULATOR_OPERATOR(-, __hsub)
EMULATOR_OPERATOR(*, __hmul)
EMULATOR_OPERATOR(/, __hdiv)
#undef EMULATOR_OPERATOR

template <class F>
ShortFloat<F> operator-(ShortFloat<F> a) {
  return ShortFloat<F>::from_bits(a.bits ^ 0x8000);
}
template <class F>
ShortFloat2<F> operator-(ShortFloat2<F> a) {
  return {-a.x, -a.y};
}

#define EMULATOR_COMPARISON(op, name)                  \
  template <class F>                                   \
  bool operator op(ShortFloat<F> a, ShortFloat<F> b) { \
    return float(a) op float(b);                       \
  }                                                    \
  template <class F>                                   \
  bool name(ShortFloat<F> a, ShortFloat<F> b) {        \
    return float(a) op float(b);                       \
  }
EMULATOR_COMPARISON(<, __hlt)
EMULATOR_COMPARISON(<=, __hle)
EMULATOR_COMPARISON(>, __hgt)
EMULATOR_COMPARISON(>=, __hge)
EMULATOR_COMPARISON(==, __heq)
EMULATOR_COMPARISON(!=, __hne)
#undef EMULATOR_COMPARISON

// ---- Intrinsics of both types -----------------------------------------------------------------------------------

template <class F>
ShortFloat<F> __hneg(ShortFloat<F> a) {
  return -a;
}
template <class F>
ShortFloat2<F> __hneg2(ShortFloat2<F> a) {
  return -a;
}
template <class F>
ShortFloat<F> __habs(ShortFloat<F> a) {
  return ShortFloat<F>::from_bits(a.bits & 0x7FFF);
}
template <class F>
ShortFloat2<F> __habs2(ShortFloat2<F> a) {
  return {__habs(a.x), __habs(a.y)};
}
template <class F>
ShortFloat<F> __hfma(ShortFloat<F> a, ShortFloat<F> b, ShortFloat<F> c) {
  return rounded<F>(fma(wide(a), wide(b), wide(c)));
}
template <class F>
ShortFloat2<F> __hfma2(ShortFloat2<F> a, ShortFloat2<F> b, ShortFloat2<F> c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
template <class F>
ShortFloat<F> __hfma_relu(ShortFloat<F> a, ShortFloat<F> b, ShortFloat<F> c) {
  const ShortFloat<F> value = __hfma(a, b, c);
  return float(value) > 0.0f ? value : ShortFloat<F>(0.0f);
}
template <class F>
ShortFloat<F> __hmax(ShortFloat<F> a, ShortFloat<F> b) {
  return fmaxf(float(a), float(b));
}
template <class F>
ShortFloat<F> __hmin(ShortFloat<F> a, ShortFloat<F> b) {
  return fminf(float(a), float(b));
}
template <class F>
ShortFloat<F> __hmax_nan(ShortFloat<F> a, ShortFloat<F> b) {
  return float(a) != float(a) || float(b) != float(b) ? ShortFloat<F>::from_bits(0x7FFF) : __hmax(a, b);
}
template <class F>
ShortFloat2<F> __hmax2(ShortFloat2<F> a, ShortFloat2<F> b) {
  return {__hmax(a.x, b.x), __hmax(a.y, b.y)};
}
template <class F>
ShortFloat2<F> __hmin2(ShortFloat2<F> a, ShortFloat2<F> b) {
  return {__hmin(a.x, b.x), __hmin(a.y, b.y)};
}
template <class F>
bool __hisnan(ShortFloat<F> a) {
  return float(a) != float(a);
}
template <class F>
bool __hisinf(ShortFloat<F> a) {
  return fabsf(float(a)) == HUGE_VALF;
}
template <class F>
float __low2float(ShortFloat2<F> a) {
  return a.x;
}
template <class F>
float __high2float(ShortFloat2<F> a) {
  return a.y;
}

#define EMULATOR_FUNCTION(name, expression)   \
  template <class F>                          \
  ShortFloat<F> h##name(ShortFloat<F> a) {    \
    const float x = a;                        \
    return ShortFloat<F>(float(expression));  \
  }                                           \
  template <class F>                          \
  ShortFloat2<F> h2##name(ShortFloat2<F> a) { \
    return {h##name(a.x), h##name(a.y)};      \
  }
EMULATOR_FUNCTION(exp, expf(x))
EMULATOR_FUNCTION(exp2, exp2f(x))
EMULATOR_FUNCTION(exp10, powf(10.0f, x))
EMULATOR_FUNCTION(log, logf(x))
EMULATOR_FUNCTION(log2, log2f(x))
EMULATOR_FUNCTION(log10, log10f(x))
EMULATOR_FUNCTION(sqrt, sqrtf(x))
EMULATOR_FUNCTION(rsqrt, 1.0f / sqrtf(x))
EMULATOR_FUNCTION(rcp, 1.0f / x)
EMULATOR_FUNCTION(sin, sinf(x))
EMULATOR_FUNCTION(cos, cosf(x))
EMULATOR_FUNCTION(tanh, tanhf(x))
EMULATOR_FUNCTION(floor, floorf(x))
EMULATOR_FUNCTION(ceil, ceilf(x))
EMULATOR_FUNCTION(rint, rintf(x))
EMULATOR_FUNCTION(trunc, truncf(x))
#undef EMULATOR_FUNCTION

}  // namespace emulator

using half = emulator::ShortFloat<emulator::HalfFormat>;
using half2 = emulator::ShortFloat2<emulator::HalfFormat>;
using __half = half;
using __half2 = half2;
using __nv_bfloat16 = emulator::ShortFloat<emulator::BfloatFormat>;
using __nv_bfloat162 = emulator::ShortFloat2<emulator::BfloatFormat>;

// ---- Conversions, whose names hold the type ----------------------------------------------------------------------

#define EMULATOR_CONVERSIONS(T, T2, name, pair)                                         \
  inline T __float2##name(float a) { return T(a); }                                     \
  inline T __float2##name##_rn(float a) { return T(a); }                                \
  inline T __double2##name(double a) { return T(a); }                                   \
  inline float __##name##2float(T a) { return a; }                                      \
  inline T __int2##name##_rn(int a) { return T(a); }                                    \
  inline T __uint2##name##_rn(unsigned a) { return T(a); }                              \
  inline T __short2##name##_rn(short a) { return T(a); }                                \
  inline T __ushort2##name##_rn(unsigned short a) { return T(a); }                      \
  inline int __##name##2int_rn(T a) { return int(rintf(a)); }                           \
  inline int __##name##2int_rz(T a) { return int(float(a)); }                           \
  inline unsigned short __##name##_as_ushort(T a) { return a.bits; }                    \
  inline short __##name##_as_short(T a) { return short(a.bits); }                       \
  inline T __ushort_as_##name(unsigned short bits) { return T::from_bits(bits); }       \
  inline T __short_as_##name(short bits) { return T::from_bits((unsigned short)bits); } \
  inline T2 __floats2##pair##_rn(float a, float b) { return {T(a), T(b)}; }             \
  inline T2 __float2##pair##_rn(float a) { return {T(a), T(a)}; }                       \
  inline T2 __float22##pair##_rn(float2 a) { return {T(a.x), T(a.y)}; }                 \
  inline float2 __##pair##2float2(T2 a) { return {float(a.x), float(a.y)}; }            \
  inline T2 make_##pair(T a, T b) { return {a, b}; }                                    \
  inline T2 __halves2##pair(T a, T b) { return {a, b}; }                                \
  inline T2 __##name##2##pair(T a) { return {a, a}; }                                   \
  inline T __low2##name(T2 a) { return a.x; }                                           \
  inline T __high2##name(T2 a) { return a.y; }                                          \
  inline T2 __low2##pair(T2 a) { return {a.x, a.x}; }                                   \
  inline T2 __high2##pair(T2 a) { return {a.y, a.y}; }                                  \
  inline T2 __lows2##pair(T2 a, T2 b) { return {a.x, b.x}; }                            \
  inline T2 __highs2##pair(T2 a, T2 b) { return {a.y, b.y}; }                           \
  inline T2 __lowhigh2highlow(T2 a) { return {a.y, a.x}; }
EMULATOR_CONVERSIONS(half, half2, half, half2)
EMULATOR_CONVERSIONS(__nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162)
#undef EMULATOR_CONVERSIONS
