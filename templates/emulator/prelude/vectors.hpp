// CUDA's and HIP's short vector types.
#pragma once

#define EMULATOR_VECTORS(name, type, align2, align4)                          \
  struct name##1 { type x; };                                                 \
  struct alignas(align2) name##2 { type x, y; };                              \
  struct name##3 { type x, y, z; };                                           \
  struct alignas(align4) name##4 { type x, y, z, w; };                        \
  inline name##1 make_##name##1(type x) { return {x}; }                       \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }            \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

EMULATOR_VECTORS(char, signed char, 2, 4)
EMULATOR_VECTORS(uchar, unsigned char, 2, 4)
EMULATOR_VECTORS(short, short, 4, 8)
EMULATOR_VECTORS(ushort, unsigned short, 4, 8)
EMULATOR_VECTORS(int, int, 8, 16)
EMULATOR_VECTORS(long, long, 16, 16)
EMULATOR_VECTORS(ulong, unsigned long, 16, 16)
EMULATOR_VECTORS(longlong, long long, 16, 16)
EMULATOR_VECTORS(ulonglong, unsigned long long, 16, 16)
EMULATOR_VECTORS(float, float, 8, 16)
EMULATOR_VECTORS(double, double, 16, 16)
#undef EMULATOR_VECTORS

struct uint1 {
  unsigned x;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint1 make_uint1(unsigned x) { return {x}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
