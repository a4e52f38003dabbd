// What device code of both vendors takes for granted: qualifiers, indices, wave collectives, atomics, mathematics.
// Included, by force, ahead of the emitted file.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../interface.hpp"
#include "../numeric.hpp"

// ---- Qualifiers -------------------------------------------------------------------------------------------------

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// Static shared variables of the kernel lie in one section, which the core treats as the block's shared memory.
#define __shared__ static __attribute__((section("emulator_shared")))

#define threadIdx (::emulator::thread_index())
#define blockIdx (::emulator::block_index())
#define blockDim (::emulator::block_extent())
#define gridDim (::emulator::grid_extent())

using dim3 = emulator::Index3;
using uint3 = emulator::Index3;

// ---- Barriers and wave collectives ------------------------------------------------------------------------------

inline void __syncthreads(int line = __builtin_LINE()) { emulator::synchronize_block(line); }

namespace emulator {

template <class T>
std::uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= 8, "a lane exchanges at most 8 bytes at a time");
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
T from_bits(std::uint64_t bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
T shuffle_value(std::uint64_t mask, T value, Shuffle mode, unsigned operand, int width, int line) {
  return from_bits<T>(shuffle(to_bits(value), mode, operand, unsigned(width), mask, line));
}

}  // namespace emulator

// ---- Atomics ----------------------------------------------------------------------------------------------------

namespace emulator {

template <class T, class Function>
T atomic_update(T* address, Function function, int line) {
  begin_atomic(address, sizeof(T), line);
  const T old = *address;
  *address = function(old);
  end_atomic();
  return old;
}

template <class T>
struct Same {
  using type = T;
};
template <class T>
using SameAs = typename Same<T>::type;  // a parameter that does not take part in deduction

}  // namespace emulator

#define EMULATOR_ATOMIC(name, expression)                                                  \
  template <class T>                                                                       \
  T name(T* address, emulator::SameAs<T> value, int line = __builtin_LINE()) {             \
    return emulator::atomic_update(address, [&](T old) -> T { return expression; }, line); \
  }
EMULATOR_ATOMIC(atomicAdd, old + value)
EMULATOR_ATOMIC(atomicSub, old - value)
EMULATOR_ATOMIC(atomicMax, old < value ? value : old)
EMULATOR_ATOMIC(atomicMin, value < old ? value : old)
EMULATOR_ATOMIC(atomicExch, value)
EMULATOR_ATOMIC(atomicAnd, old& value)
EMULATOR_ATOMIC(atomicOr, old | value)
EMULATOR_ATOMIC(atomicXor, old ^ value)
EMULATOR_ATOMIC(atomicInc, old >= value ? T(0) : T(old + 1))
EMULATOR_ATOMIC(atomicDec, old == T(0) || old > value ? value : T(old - 1))
#undef EMULATOR_ATOMIC

template <class T>
T atomicCAS(T* address, emulator::SameAs<T> compare, emulator::SameAs<T> value, int line = __builtin_LINE()) {
  return emulator::atomic_update(
      address, [&](T old) -> T { return emulator::to_bits(old) == emulator::to_bits(compare) ? value : old; }, line);
}

inline void __threadfence_block() {}

// ---- Mathematics ------------------------------------------------------------------------------------------------

template <class A, class B>
constexpr auto min(A a, B b) {
  return b < a ? b : a;
}
template <class A, class B>
constexpr auto max(A a, B b) {
  return a < b ? b : a;
}

// Macros, for the host's mathematics library has declared these names.
#define __expf(x) expf(x)
#define __exp10f(x) powf(10.0f, (x))
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __powf(x, y) powf(x, y)
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frsqrt_rn(float x) { return 1.0f / sqrtf(x); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
inline float fdividef(float x, float y) { return x / y; }
inline float normcdff(float x) { return 0.5f * erfcf(-x * 0.707106781f); }
#ifndef __USE_GNU
inline float exp10f(float x) { return powf(10.0f, x); }
#endif

inline int __float_as_int(float x) { return emulator::from_bits<int>(emulator::to_bits(x)); }
inline unsigned __float_as_uint(float x) { return emulator::from_bits<unsigned>(emulator::to_bits(x)); }
inline float __int_as_float(int x) { return emulator::from_bits<float>(emulator::to_bits(x)); }
inline float __uint_as_float(unsigned x) { return emulator::from_bits<float>(emulator::to_bits(x)); }
inline long long __double_as_longlong(double x) { return emulator::from_bits<long long>(emulator::to_bits(x)); }
inline double __longlong_as_double(long long x) { return emulator::from_bits<double>(emulator::to_bits(x)); }

inline int __float2int_rn(float x) { return int(rintf(x)); }
inline int __float2int_rz(float x) { return int(x); }
inline int __float2int_rd(float x) { return int(floorf(x)); }
inline int __float2int_ru(float x) { return int(ceilf(x)); }
inline unsigned __float2uint_rn(float x) { return unsigned(rintf(x)); }
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1) << (31 - i);
  return reversed;
}
inline int __mul24(int x, int y) { return (x << 8 >> 8) * (y << 8 >> 8); }
inline int __mulhi(int x, int y) { return int((long long)x * y >> 32); }
inline unsigned __umulhi(unsigned x, unsigned y) { return unsigned((unsigned long long)x * y >> 32); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)high << 32 | low) >> (shift & 31));
}

#define __builtin_assume(condition) ((void)0)
