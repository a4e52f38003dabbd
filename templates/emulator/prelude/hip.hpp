// What HIP device code takes for granted, beside prelude/common.hpp: waves of 64 lanes, 16-bit floats, vectors.
#pragma once

#include "../interface_amd.hpp"
#include "common.hpp"
#include "short_floats.hpp"
#include "vectors.hpp"

#define __HIPCC_RTC__ 1
#define __HIP_DEVICE_COMPILE__ 1
#define warpSize 64

namespace emulator {

using Half = ShortFloat<HalfFormat>;
using Bfloat = ShortFloat<BfloatFormat>;

// clang's ext_vector_type, as far as emitted text uses it
template <class T, int kElements>
struct alignas(sizeof(T) * kElements) Vector {
  T elements[kElements];

  T& operator[](int index) { return elements[index]; }
  const T& operator[](int index) const { return elements[index]; }
};

#define EMULATOR_VECTOR_OPERATOR(op)                                                                      \
  template <class T, int kElements>                                                                       \
  Vector<T, kElements> operator op(Vector<T, kElements> a, Vector<T, kElements> b) {                      \
    for (int i = 0; i < kElements; ++i) a[i] = a[i] op b[i];                                              \
    return a;                                                                                             \
  }                                                                                                       \
  template <class T, int kElements>                                                                       \
  Vector<T, kElements> operator op(Vector<T, kElements> a, std::type_identity_t<T> b) {                   \
    for (int i = 0; i < kElements; ++i) a[i] = a[i] op b;                                                 \
    return a;                                                                                             \
  }                                                                                                       \
  template <class T, int kElements>                                                                       \
  Vector<T, kElements> operator op(std::type_identity_t<T> a, Vector<T, kElements> b) {                   \
    for (int i = 0; i < kElements; ++i) b[i] = a op b[i];                                                 \
    return b;                                                                                             \
  }
EMULATOR_VECTOR_OPERATOR(+)
EMULATOR_VECTOR_OPERATOR(-)
EMULATOR_VECTOR_OPERATOR(*)
EMULATOR_VECTOR_OPERATOR(/)
#undef EMULATOR_VECTOR_OPERATOR

template <class Half8>
auto half_of(const Half8& value, int first) {
  constexpr int kElements = int(sizeof(Half8) / sizeof(value[0])) / 2;
  Vector<std::remove_cvref_t<decltype(value[0])>, kElements> half;
  for (int i = 0; i < kElements; ++i) half[i] = value[first + i];
  return half;
}

// Buffer accesses in the kernel's own code, so that they are seen as plain accesses to the tensor
template <class Value>
Value buffer_load(amd::Resource resource, std::uint32_t offset, int line) {
  Value value;
  amd::count_load();
  if (amd::inside(resource, offset, int(sizeof(Value)), line))
    __builtin_memcpy(&value, resource.base + offset, sizeof(Value));
  else
    __builtin_memset(&value, 0, sizeof(Value));
  return value;
}

template <class Value>
void buffer_store(const Value& value, amd::Resource resource, std::uint32_t offset, int line) {
  if (amd::inside(resource, offset, int(sizeof(Value)), line))
    __builtin_memcpy(resource.base + offset, &value, sizeof(Value));
}

}  // namespace emulator

// ---- Wave collectives -------------------------------------------------------------------------------------------

#define EMULATOR_SHUFFLE(name, mode, type)                                                                        \
  template <class T>                                                                                              \
  T name(T value, type operand, int width = warpSize, int line = __builtin_LINE()) {                              \
    return emulator::shuffle_value(~0ull, value, emulator::Shuffle::mode, unsigned(operand), width, line);        \
  }
EMULATOR_SHUFFLE(__shfl, kIndex, int)
EMULATOR_SHUFFLE(__shfl_up, kUp, unsigned)
EMULATOR_SHUFFLE(__shfl_down, kDown, unsigned)
EMULATOR_SHUFFLE(__shfl_xor, kXor, int)
#undef EMULATOR_SHUFFLE

inline unsigned long long __ballot(int predicate, int line = __builtin_LINE()) {
  return emulator::ballot(predicate != 0, ~0ull, line);
}
inline int __any(int predicate, int line = __builtin_LINE()) { return __ballot(predicate, line) != 0; }
inline int __all(int predicate, int line = __builtin_LINE()) { return __ballot(predicate == 0, line) == 0; }

inline void __threadfence() { emulator::amd::fence_device(); }
inline void __threadfence_system() { emulator::amd::fence_device(); }

// What the emulator puts in the place of a file's "device types" section
#define TILEGEN_DEVICE inline
