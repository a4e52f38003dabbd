// matmul: C = A @ B^T                                                                 CUDA, sm_80
//
// Written by hand for the emulator's tests: a ring of cp.async stages, ldmatrix from an XOR-swizzled tile, mma.sync.

#include <cuda_fp16.h>

#ifndef __CUDACC_RTC__
#include <cuda_runtime.h>
#endif

namespace {

// --------------------------------------------------------------------------------------------- device types

#define TILEGEN_DEVICE __device__ __forceinline__

using u32 = unsigned int;

// --------------------------------------------------------------------------------------------- configuration

constexpr int kBlock = 64;   // rows and columns of the tile
constexpr int kBlockK = 32;
constexpr int kStages = 3;
constexpr int kThreads = 128;  // 2 x 2 warps of 32 x 32

struct alignas(128) SharedStorage {
  half A_shared[kStages][kBlock][kBlockK];
  half B_shared[kStages][kBlock][kBlockK];
};

// --------------------------------------------------------------------------------------------- device primitives

@PRIMITIVES@

// --------------------------------------------------------------------------------------------- device helpers

// The first element of an 8-element chunk of a 32-element row: eight rows touch all banks
TILEGEN_DEVICE int swizzled(int row, int chunk) { return 8 * (chunk ^ (row / 2 % 4)); }

}  // namespace

// --------------------------------------------------------------------------------------------- kernel

extern "C" __global__ void __launch_bounds__(kThreads)
    matmul(const half* A, const half* B, float* C, int M, int N, int K) {
  SharedStorage& shared = shared_storage();
  const int thread = threadIdx.x;
  const int warp = thread / 32;
  const int lane = thread % 32;
  const int first_m = blockIdx.y * kBlock;
  const int first_n = blockIdx.x * kBlock;
  const int warp_m = warp / 2 * 32;
  const int warp_n = warp % 2 * 32;
  const int k_tiles = (K + kBlockK - 1) / kBlockK;

  auto load = [&](int stage, int k) {
    if (k < k_tiles) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = thread / 4 + 32 * i;
        const int chunk = thread % 4;
        const int column = k * kBlockK + 8 * chunk;
        // matmul.py:10  T.copy(A[by * 64, k * 32], A_shared)
        SM80_CP_ASYNC_CACHEGLOBAL_ZFILL::copy(&shared.A_shared[stage][row][swizzled(row, chunk)],
                                              A + size_t(first_m + row) * K + column,
                                              first_m + row < M && column < K);
        // matmul.py:11  T.copy(B[bx * 64, k * 32], B_shared)
        SM80_CP_ASYNC_CACHEGLOBAL_ZFILL::copy(&shared.B_shared[stage][row][swizzled(row, chunk)],
                                              B + size_t(first_n + row) * K + column,
                                              first_n + row < N && column < K);
      }
    }
    cp_async_commit();
  };

  float C_local[2][4][4] = {};
  for (int stage = 0; stage < kStages - 1; ++stage) load(stage, stage);

  for (int k = 0; k < k_tiles; ++k) {
    cp_async_wait<kStages - 2>();
    __syncthreads();
    const int stage = k % kStages;

    // matmul.py:12  T.gemm(A_shared, B_shared, C_local, transpose_B=True)
#pragma unroll
    for (int kk = 0; kk < 2; ++kk) {
      u32 a[2][4], b[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = warp_m + 16 * i + lane % 16;
        ldmatrix_x4(a[i], &shared.A_shared[stage][row][swizzled(row, 2 * kk + lane / 16)]);
        const int column = warp_n + 16 * i + lane % 8 + lane / 16 * 8;
        ldmatrix_x4(b[i], &shared.B_shared[stage][column][swizzled(column, 2 * kk + lane / 8 % 2)]);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const u32 operand[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
          SM80_16x8x16_F32F16F16F32_TN::fma(C_local[i][j], a[i], operand);
        }
    }
    load((k + kStages - 1) % kStages, k + kStages - 1);
  }
  cp_async_wait<0>();

  // matmul.py:13  T.copy(C_local, C[by * 64, bx * 64])
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        const int row = first_m + warp_m + 16 * i + lane / 4 + 8 * (v / 2);
        const int column = first_n + warp_n + 8 * j + 2 * (lane % 4) + v % 2;
        if (row < M && column < N) C[size_t(row) * N + column] = C_local[i][j][v];
      }
}

// --------------------------------------------------------------------------------------------- host

#ifndef __CUDACC_RTC__

extern "C" cudaError_t matmul_launch(const half* A, const half* B, float* C, int M, int N, int K,
                                     cudaStream_t stream) {
  const dim3 grid((N + kBlock - 1) / kBlock, (M + kBlock - 1) / kBlock);
  matmul<<<grid, kThreads, sizeof(SharedStorage), stream>>>(A, B, C, M, N, K);
  return cudaGetLastError();
}

#endif  // __CUDACC_RTC__
