// wgmma_layouts: D = A @ B for every swizzle and both majors of each operand                CUDA, sm_90a
//
// Written by hand for the emulator's tests. One tile: 64 x 64 x 64.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#ifndef __CUDACC_RTC__
#include <cuda.h>
#include <cuda_runtime.h>
#else
struct alignas(64) CUtensorMap {
  unsigned long long opaque[16];
};
#endif

namespace {

// --------------------------------------------------------------------------------------------- device types

#define TILEGEN_DEVICE __device__ __forceinline__

using u32 = unsigned int;
using u64 = unsigned long long;

// --------------------------------------------------------------------------------------------- configuration

constexpr int kSize = 64;
constexpr int kThreads = 128;

struct alignas(1024) SharedStorage {
  unsigned short A_shared[kSize * kSize];
  unsigned short B_shared[kSize * kSize];
  u64 full;
};

// --------------------------------------------------------------------------------------------- device primitives

@PRIMITIVES@

// --------------------------------------------------------------------------------------------- device helpers

TILEGEN_DEVICE u64 descriptor(int swizzle, const void* tile, u32 leading_offset, u32 stride_offset) {
  return swizzle == 128  ? descriptor_sw128(tile, leading_offset, stride_offset)
         : swizzle == 64 ? descriptor_sw64(tile, leading_offset, stride_offset)
                         : descriptor_sw32(tile, leading_offset, stride_offset);
}

// The operand's part for rows 16 k .. 16 k + 15 of the reduction. The tile lies in groups of `swizzle` bytes along its
// contiguous dimension, each group with all 64 rows of the other dimension.
TILEGEN_DEVICE u64 operand(const unsigned short* tile, bool mn_major, int swizzle, int k) {
  const int columns = swizzle / 2;  // elements in one row of a group
  const u32 group_bytes = kSize * swizzle;
  if (mn_major) return descriptor(swizzle, tile + 16 * k * columns, group_bytes, 8 * swizzle);
  return descriptor(swizzle, tile + 16 * k / columns * kSize * columns + 16 * k % columns, 0, 8 * swizzle);
}

TILEGEN_DEVICE void load_operand(unsigned short* tile, const CUtensorMap& map, int swizzle, u64& barrier) {
  const int columns = swizzle / 2;
  for (int group = 0; group < kSize / columns; ++group)
    tma_load_2d(tile + group * kSize * columns, map, group * columns, 0, barrier);
}

TILEGEN_DEVICE u32 pair(const unsigned short* matrix, int row, int column) {
  return matrix[row * kSize + column] | u32(matrix[row * kSize + column + 1]) << 16;
}

template <class Instruction>
TILEGEN_DEVICE void multiply(float (&d)[32], SharedStorage& shared, bool a_mn, bool b_mn, int a_swizzle, int b_swizzle) {
  warpgroup_arrive();
  for (int k = 0; k < kSize / 16; ++k)
    Instruction::fma(d, operand(shared.A_shared, a_mn, a_swizzle, k), operand(shared.B_shared, b_mn, b_swizzle, k),
                     k > 0);
  warpgroup_commit();
  warpgroup_wait<0>();
}

template <class Instruction>
TILEGEN_DEVICE void multiply_registers(float (&d)[32], const unsigned short* A, SharedStorage& shared, bool b_mn,
                                       int b_swizzle) {
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  const int column = 2 * (threadIdx.x % 4);
  u32 a[kSize / 16][4];
  for (int k = 0; k < kSize / 16; ++k)
    for (int r = 0; r < 4; ++r) a[k][r] = pair(A, row + 8 * (r % 2), 16 * k + column + 8 * (r / 2));
  warpgroup_arrive();
  for (int k = 0; k < kSize / 16; ++k)
    Instruction::fma(d, a[k], operand(shared.B_shared, b_mn, b_swizzle, k), k > 0);
  warpgroup_commit();
  warpgroup_wait<0>();
}

}  // namespace

// --------------------------------------------------------------------------------------------- kernel

// A_registers holds A row-major for the instructions that read A from registers (registers != 0).
extern "C" __global__ void __launch_bounds__(kThreads)
    wgmma_layouts(const __grid_constant__ CUtensorMap A, const __grid_constant__ CUtensorMap B,
                  const unsigned short* A_registers, float* D, int a_mn, int b_mn, int a_swizzle, int b_swizzle,
                  int bfloat, int registers) {
  SharedStorage& shared = shared_storage();
  if (threadIdx.x == 0) {
    mbarrier_init(shared.full, 1);
    fence_barrier_init();
    mbarrier_arrive_expect_tx(shared.full, sizeof(shared.A_shared) + sizeof(shared.B_shared));
    load_operand(shared.A_shared, A, a_swizzle, shared.full);
    load_operand(shared.B_shared, B, b_swizzle, shared.full);
  }
  __syncthreads();
  mbarrier_wait(shared.full, 0);

  float d[32];
  if (registers && bfloat && b_mn)
    multiply_registers<SM90_64x64x16_F32BF16BF16_RS<Major::MN>>(d, A_registers, shared, true, b_swizzle);
  else if (registers && bfloat)
    multiply_registers<SM90_64x64x16_F32BF16BF16_RS<Major::K>>(d, A_registers, shared, false, b_swizzle);
  else if (registers && b_mn)
    multiply_registers<SM90_64x64x16_F32F16F16_RS<Major::MN>>(d, A_registers, shared, true, b_swizzle);
  else if (registers)
    multiply_registers<SM90_64x64x16_F32F16F16_RS<Major::K>>(d, A_registers, shared, false, b_swizzle);
  else if (bfloat)
    multiply<SM90_64x64x16_F32BF16BF16_SS<Major::K, Major::MN>>(d, shared, false, true, a_swizzle, b_swizzle);
  else if (a_mn && b_mn)
    multiply<SM90_64x64x16_F32F16F16_SS<Major::MN, Major::MN>>(d, shared, true, true, a_swizzle, b_swizzle);
  else if (a_mn)
    multiply<SM90_64x64x16_F32F16F16_SS<Major::MN, Major::K>>(d, shared, true, false, a_swizzle, b_swizzle);
  else if (b_mn)
    multiply<SM90_64x64x16_F32F16F16_SS<Major::K, Major::MN>>(d, shared, false, true, a_swizzle, b_swizzle);
  else
    multiply<SM90_64x64x16_F32F16F16_SS<Major::K, Major::K>>(d, shared, false, false, a_swizzle, b_swizzle);

  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  for (int r = 0; r < 32; ++r)
    D[(row + 8 * (r / 2 % 2)) * kSize + 8 * (r / 4) + 2 * (threadIdx.x % 4) + r % 2] = d[r];
}
