// matmul_relu: C = max(A @ B, 0)                                                      HIP, gfx90a
//
// Emitted by tilegen 0.1.0 from examples/matmul.py:13 (sha256 4999f24c). Do not edit; regenerate with
//   tilegen emit examples/matmul.py:matmul_relu --target gfx90a
//
// Launch     grid  ceil(N / 128) x ceil(M / 128)
//            block 128 threads = 2 waves
//            static LDS 32,768 bytes
//
// Arguments  A  fp16 [M, K] row-major, 16-byte aligned, K % 8 == 0
//            B  fp16 [K, N] row-major, 16-byte aligned, N % 8 == 0
//            C  fp16 [M, N] row-major, 16-byte aligned, N % 8 == 0
//            Requires 128 rows of A span less than 2 GiB.
//            Requires 32 rows of B span less than 2 GiB.
//            Requires 128 rows of C span less than 2 GiB.
//            Requires M <= 2,147,418,112.
//            A tensor that is written overlaps no other.
//
// Buffer     scope      shape              layout (Shape:Stride, elements)             bytes  bank conflicts
// A_shared   LDS        fp16 [2][128, 32]  Sw<2,3,3> o (128, 32):(32, 1)              16,384  0
// B_shared   LDS        fp16 [2][32, 128]  Sw<3,3,5> o Sw<2,3,2> o (32, 128):(1, 32)  16,384  0
// C_staging  LDS        fp16 [2, 32, 128]  Sw<3,3,4> o (2, 32, 128):(4096, 128, 1)    16,384  0
//            lies over A_shared and B_shared
// C_local    registers  fp32 [128, 128]    ((32, 2, 2), (8, 8, 2)):((128, 8, 8192), (1, 16, 4096)), 128 a thread
//
// Pipeline   loop k: tile k + 2 global -> registers, tile k + 1 registers -> LDS, tile k LDS -> operands; num_stages=3:
//            2 in LDS, 1 in registers; one barrier a tile
//            math by mfma_f32_32x32x8_f16

#ifndef TILEGEN_MATMUL_RELU_GFX90A_H
#define TILEGEN_MATMUL_RELU_GFX90A_H

#include <hip/hip_runtime_api.h>

// Enqueues C = max(A @ B, 0) on the stream. Returns hipErrorInvalidValue where the contract above is broken.
extern "C" hipError_t matmul_relu_launch(const _Float16* A, const _Float16* B, _Float16* C, int M, int N, int K,
                                         hipStream_t stream);

#endif  // TILEGEN_MATMUL_RELU_GFX90A_H
