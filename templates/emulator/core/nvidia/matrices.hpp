// Matrices spread over the registers of a warp: ldmatrix, stmatrix, mma.sync (PTX ISA 9.7.14.5).
#pragma once

#include "tma.hpp"

namespace emulator::nvidia {

constexpr std::uint64_t kWholeWarp = 0xFFFFFFFF;

// Both types, as floats, for every bit pattern
struct FloatTables {
  std::vector<float> half, bfloat;
  FloatTables() : half(1 << 16), bfloat(1 << 16) {
    for (unsigned bits = 0; bits < 1 << 16; ++bits) {
      half[bits] = half_to_float(std::uint16_t(bits));
      bfloat[bits] = bfloat_to_float(std::uint16_t(bits));
    }
  }
};

inline const float* float_table(Operand type) {
  static const FloatTables tables;
  return type == Operand::kF16 ? tables.half.data() : tables.bfloat.data();
}

struct MatrixArgument {
  char* row;
  u32* registers;
  int count;
  bool transpose;
  int line;
};

inline void check_row(const Fiber& fiber, const MatrixArgument& argument, const char* name, Touch touch) {
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(argument.row);
  if (address % 16 != 0)
    report_misuse("misaligned", std::string(name) + " wants row addresses aligned to 16 bytes", argument.line);
  if (address < fiber.block->shared->begin || address >= fiber.block->shared->end())
    report_misuse("out-of-bounds", std::string("a row of ") + name + " is not in the block's shared memory",
                  argument.line);
  machine.memory.touch(address, 16, touch, accessor_of(fiber, Site::of_line(argument.line)));
}

// Lane 8 i + r has the address of row r of matrix i; register i of lane l is the pair at row l / 4, columns
// 2 (l % 4) and one more, of matrix i, or of its transpose.
inline void load_matrices(Wave& wave, std::uint64_t) {
  const int count = argument_of<MatrixArgument>(wave, 0).count;
  for (int matrix = 0; matrix < count; ++matrix) {
    std::uint16_t values[8][8];
    for (unsigned row = 0; row < 8; ++row) {
      const MatrixArgument& argument = argument_of<MatrixArgument>(wave, unsigned(8 * matrix) + row);
      check_row(*wave.lanes[unsigned(8 * matrix) + row], argument, "ldmatrix", Touch::kRead);
      std::memcpy(values[row], argument.row, 16);
    }
    for (unsigned lane = 0; lane < 32; ++lane) {
      const MatrixArgument& argument = argument_of<MatrixArgument>(wave, lane);
      const unsigned a = lane / 4, b = 2 * (lane % 4);
      const u32 low = argument.transpose ? values[b][a] : values[a][b];
      const u32 high = argument.transpose ? values[b + 1][a] : values[a][b + 1];
      argument.registers[matrix] = low | high << 16;
    }
  }
}

inline void store_matrices(Wave& wave, std::uint64_t) {
  const int count = argument_of<MatrixArgument>(wave, 0).count;
  for (int matrix = 0; matrix < count; ++matrix) {
    std::uint16_t values[8][8];
    for (unsigned lane = 0; lane < 32; ++lane) {
      const MatrixArgument& argument = argument_of<MatrixArgument>(wave, lane);
      const unsigned a = lane / 4, b = 2 * (lane % 4);
      (argument.transpose ? values[b][a] : values[a][b]) = std::uint16_t(argument.registers[matrix]);
      (argument.transpose ? values[b + 1][a] : values[a][b + 1]) = std::uint16_t(argument.registers[matrix] >> 16);
    }
    for (unsigned row = 0; row < 8; ++row) {
      const MatrixArgument& argument = argument_of<MatrixArgument>(wave, unsigned(8 * matrix) + row);
      check_row(*wave.lanes[unsigned(8 * matrix) + row], argument, "stmatrix", Touch::kWrite);
      std::memcpy(argument.row, values[row], 16);
    }
  }
}

void ldmatrix(u32* fragment, const void* row, int count, bool transpose, int line) {
  MatrixArgument argument = {static_cast<char*>(const_cast<void*>(row)), fragment, count, transpose, line};
  wave_collective("ldmatrix", kWholeWarp, true, &argument, line, load_matrices);
}

void stmatrix(void* row, const u32* fragment, int count, bool transpose, int line) {
  MatrixArgument argument = {static_cast<char*>(row), const_cast<u32*>(fragment), count, transpose, line};
  wave_collective("stmatrix", kWholeWarp, true, &argument, line, store_matrices);
}

struct MmaArgument {
  float* d;
  const u32 *a, *b;
  Operand type;
};

// With g = lane / 4, t = lane % 4: A's register r has row g + 8 (r % 2), columns 2 t + 8 (r / 2) and one more; B's
// register r has rows 2 t + 8 r and one more, column g; D's element v is row g + 8 (v / 2), column 2 t + v % 2.
inline void multiply(Wave& wave, std::uint64_t) {
  const float* table = float_table(argument_of<MmaArgument>(wave, 0).type);
  float a[16][16], b[16][8], d[16][8];
  for (unsigned lane = 0; lane < 32; ++lane) {
    const MmaArgument& argument = argument_of<MmaArgument>(wave, lane);
    const unsigned g = lane / 4, t = lane % 4;
    for (unsigned r = 0; r < 4; ++r) {
      a[g + 8 * (r % 2)][2 * t + 8 * (r / 2)] = table[argument.a[r] & 0xFFFF];
      a[g + 8 * (r % 2)][2 * t + 8 * (r / 2) + 1] = table[argument.a[r] >> 16];
      d[g + 8 * (r / 2)][2 * t + r % 2] = argument.d[r];
    }
    for (unsigned r = 0; r < 2; ++r) {
      b[2 * t + 8 * r][g] = table[argument.b[r] & 0xFFFF];
      b[2 * t + 8 * r + 1][g] = table[argument.b[r] >> 16];
    }
  }
  for (unsigned i = 0; i < 16; ++i)
    for (unsigned k = 0; k < 16; ++k)
      for (unsigned j = 0; j < 8; ++j) d[i][j] += a[i][k] * b[k][j];
  for (unsigned lane = 0; lane < 32; ++lane) {
    const MmaArgument& argument = argument_of<MmaArgument>(wave, lane);
    for (unsigned v = 0; v < 4; ++v) argument.d[v] = d[lane / 4 + 8 * (v / 2)][2 * (lane % 4) + v % 2];
  }
}

void mma_m16n8k16(float* d, const u32* a, const u32* b, Operand type, int line) {
  MmaArgument argument = {d, a, b, type};
  wave_collective("mma.sync", kWholeWarp, true, &argument, line, multiply);
}

}  // namespace emulator::nvidia
