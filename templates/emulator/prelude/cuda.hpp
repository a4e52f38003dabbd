// What CUDA device code takes for granted, beside prelude/common.hpp: warps of 32 lanes, packed integers, tensor maps.
#pragma once

#include "../interface_nvidia.hpp"
#include "common.hpp"
#include "eight_bit_floats.hpp"
#include "short_floats.hpp"
#include "vectors.hpp"

#define __CUDA_ARCH__ 900
#define __grid_constant__
#define warpSize 32

// Holds the number of a tensor map of the launch; the emulator knows the map itself.
struct alignas(64) CUtensorMap {
  unsigned long long opaque[16];
};

// ---- Warp collectives: PTX ISA 9.7.9.6 (shfl.sync), 9.7.13.2 (bar.warp.sync), 9.7.13.9 (vote.sync) ----------------

inline void __syncwarp(unsigned mask = ~0u, int line = __builtin_LINE()) { emulator::synchronize_wave(mask, line); }

#define EMULATOR_SHUFFLE(name, mode, type)                                                                \
  template <class T>                                                                                      \
  T name(unsigned mask, T value, type operand, int width = warpSize, int line = __builtin_LINE()) {       \
    return emulator::shuffle_value(mask, value, emulator::Shuffle::mode, unsigned(operand), width, line); \
  }
EMULATOR_SHUFFLE(__shfl_sync, kIndex, int)
EMULATOR_SHUFFLE(__shfl_up_sync, kUp, unsigned)
EMULATOR_SHUFFLE(__shfl_down_sync, kDown, unsigned)
EMULATOR_SHUFFLE(__shfl_xor_sync, kXor, int)
#undef EMULATOR_SHUFFLE

inline unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return unsigned(emulator::ballot(predicate != 0, mask, line));
}
inline int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return __ballot_sync(mask, predicate, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return __ballot_sync(mask, predicate == 0, line) == 0;
}

template <class T>
unsigned __match_any_sync(unsigned mask, T value, int line = __builtin_LINE()) {
  std::uint64_t all[64];
  emulator::exchange(emulator::to_bits(value), all, mask, line);
  unsigned equal = 0;
  for (unsigned lane = 0; lane < warpSize; ++lane)
    if ((mask >> lane & 1) && all[lane] == emulator::to_bits(value)) equal |= 1u << lane;
  return equal;
}

// redux.sync: PTX ISA 9.7.13.12
#define EMULATOR_REDUCE(name, expression)                          \
  template <class T>                                               \
  T name(unsigned mask, T value, int line = __builtin_LINE()) {    \
    std::uint64_t all[64];                                         \
    emulator::exchange(emulator::to_bits(value), all, mask, line); \
    bool first = true;                                             \
    T a{};                                                         \
    for (unsigned lane = 0; lane < warpSize; ++lane) {             \
      if ((mask >> lane & 1) == 0) continue;                       \
      const T b = emulator::from_bits<T>(all[lane]);               \
      a = first ? b : T(expression);                               \
      first = false;                                               \
    }                                                              \
    return a;                                                      \
  }
EMULATOR_REDUCE(__reduce_add_sync, a + b)
EMULATOR_REDUCE(__reduce_min_sync, b < a ? b : a)
EMULATOR_REDUCE(__reduce_max_sync, a < b ? b : a)
EMULATOR_REDUCE(__reduce_and_sync, a& b)
EMULATOR_REDUCE(__reduce_or_sync, a | b)
EMULATOR_REDUCE(__reduce_xor_sync, a ^ b)
#undef EMULATOR_REDUCE

// The lanes run on their own: a thread is alone in what it can vouch for.
inline unsigned __activemask() { return 1u << emulator::lane_index(); }

// ---- Loads, packed integers -------------------------------------------------------------------------------------

template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldcg(const T* address) {
  return *address;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
void __stcs(T* address, T value) {
  *address = value;
}
template <class T>
void __stcg(T* address, T value) {
  *address = value;
}

inline void __trap() { __builtin_trap(); }
inline void __nanosleep(unsigned) {}
inline long long clock64() { return 0; }

inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long bytes = (unsigned long long)b << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned nibble = selector >> (4 * i) & 15;
    unsigned byte = unsigned(bytes >> (8 * (nibble & 7))) & 0xFF;
    if (nibble & 8) byte = byte & 0x80 ? 0xFF : 0;  // replicates the sign
    result |= byte << (8 * i);
  }
  return result;
}

// dp4a: PTX ISA 9.7.1.24
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += int((signed char)(a >> (8 * i))) * int((signed char)(b >> (8 * i)));
  return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 4; ++i) c += (a >> (8 * i) & 0xFF) * (b >> (8 * i) & 0xFF);
  return c;
}

inline void __threadfence() { emulator::nvidia::fence_device(); }
inline void __threadfence_system() { emulator::nvidia::fence_device(); }

// What the emulator puts in the place of a file's "device types" section
#define TILEGEN_DEVICE inline
