// What the twins of the HIP primitives call; the signatures follow the CDNA instructions.
#pragma once

#include <cstdint>

#include "interface.hpp"

namespace emulator::amd {

// ---- Matrix cores (CDNA3 ISA, "Matrix Arithmetic Instructions"): C[size, size] += A[size, depth] B[depth, size]
enum class Operand { kF16, kBF16 };
struct Mfma {
  int size, depth;
  Operand type;
};
void mfma(const Mfma& shape, float* c, const void* a, const void* b, int line);

// ---- Memory fences: they wait for what the wave itself has under way. What other waves of the block have stored is
// visible to the device once these have fenced, not because a barrier of the block lies between (LLVM, "User Guide for
// AMDGPU Backend", memory models of gfx90a and gfx942: releases to the workgroup do not wait for vmcnt).
void fence_device();

// ---- Buffer instructions (CDNA3 ISA, "Vector Memory Operations")
struct Resource {
  char* base;
  std::uint32_t bytes;
};

// Whether an access is inside the resource; reports one that is partly inside, or not aligned as the hardware wants it.
bool inside(const Resource& resource, std::uint32_t offset, int bytes, int line);

// Loads to LDS: lane l's bytes land at `tile` + `bytes` l, some time before wait_loads lets the wave go on.
void load_lds(void* tile, const Resource& resource, std::uint32_t offset, int bytes, int line);
void count_load();  // of a load to registers, which wait_loads counts too
void wait_loads(int pending, int line);

}  // namespace emulator::amd
