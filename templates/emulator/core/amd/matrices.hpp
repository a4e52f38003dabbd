// Matrix cores: one wave's v_mfma with 16-bit operands and sums in fp32 (CDNA3 ISA, "Matrix Arithmetic Instructions").
#pragma once

#include "../../interface_amd.hpp"
#include "../collectives.hpp"
#include "../nvidia/matrices.hpp"

namespace emulator::amd {

constexpr std::uint64_t kWholeWave = ~std::uint64_t(0);
constexpr unsigned kLanes = 64;

struct MfmaArgument {
  Mfma shape;
  float* c;
  const std::uint16_t *a, *b;
};

// With size 32 or 16: a lane holds `own` = depth * size / 64 neighbours along k, from own * (lane / size) on, of row
// lane % size of A and of column lane % size of B. Its register r of C is, of column lane % size, row
// 8 (r / 4) + 4 (lane / 32) + r % 4 with size 32, row 4 (lane / 16) + r with size 16.
inline void multiply(Wave& wave, std::uint64_t) {
  constexpr int kMaxSize = 32, kMaxDepth = 32;
  const Mfma shape = argument_of<MfmaArgument>(wave, 0).shape;
  const int size = shape.size, own = shape.depth * size / int(kLanes);
  const float* table =
      nvidia::float_table(shape.type == Operand::kF16 ? nvidia::Operand::kF16 : nvidia::Operand::kBF16);
  static float a[kMaxSize][kMaxDepth], b[kMaxDepth][kMaxSize], product[kMaxSize][kMaxSize];
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const MfmaArgument& argument = argument_of<MfmaArgument>(wave, lane);
    const int row = int(lane) % size, first = own * (int(lane) / size);
    for (int k = 0; k < own; ++k) {
      a[row][first + k] = table[argument.a[k]];
      b[first + k][row] = table[argument.b[k]];
    }
  }
  for (int i = 0; i < size; ++i) {
    for (int j = 0; j < size; ++j) product[i][j] = 0;
    for (int k = 0; k < shape.depth; ++k)
      for (int j = 0; j < size; ++j) product[i][j] += a[i][k] * b[k][j];
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const MfmaArgument& argument = argument_of<MfmaArgument>(wave, lane);
    const int column = int(lane) % size, group = int(lane) / size;
    for (int r = 0; r < size * size / int(kLanes); ++r) {
      const int row = size == 32 ? 8 * (r / 4) + 4 * group + r % 4 : 4 * group + r;
      argument.c[r] += product[row][column];
    }
  }
}

void mfma(const Mfma& shape, float* c, const void* a, const void* b, int line) {
  MfmaArgument argument = {shape, c, static_cast<const std::uint16_t*>(a), static_cast<const std::uint16_t*>(b)};
  wave_collective("v_mfma", kWholeWave, true, &argument, line, multiply);
}

}  // namespace emulator::amd
