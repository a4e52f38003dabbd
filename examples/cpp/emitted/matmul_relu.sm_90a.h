// matmul_relu: C = max(A @ B, 0)                                                      CUDA, sm_90a
//
// Emitted by tilegen 0.1.0 from examples/matmul.py:13 (sha256 4999f24c). Do not edit; regenerate with
//   tilegen emit examples/matmul.py:matmul_relu --target sm_90a
//
// Launch     grid  ceil(M / 128) * ceil(N / 128), one tile a block
//            block 256 threads = 1 producer warpgroup + 1 consumer warpgroup; compiled for 2 a multiprocessor
//            dynamic shared memory 82,944 bytes; registers 128 at entry, then 40 (producer) and 216 (consumer)
//
// Arguments  A  fp16 [M, K] row-major, 16-byte aligned, K % 8 == 0
//            B  fp16 [K, N] row-major, 16-byte aligned, N % 8 == 0
//            C  fp16 [M, N] row-major, 16-byte aligned, N % 8 == 0
//            Requires M, N and K <= 2,147,418,112.
//            A tensor that is written overlaps no other.
//
// Buffer     scope      shape              layout (Shape:Stride, elements)              bytes  bank conflicts
// A_shared   shared     fp16 [3][128, 32]  Sw<2,3,3> o (128, 32):(32, 1)               24,576  0
// B_shared   shared     fp16 [3][32, 128]  Sw<3,3,3> o (32, (64, 2)):(64, (1, 2048))   24,576  0
// C_shared   shared     fp16 [128, 128]    Sw<3,3,3> o (128, (64, 2)):(64, (1, 8192))  32,768  0
// C_local    registers  fp32 [128, 128]    ((4, 8, 4), (2, 2, 16, 2)):((2, 128, 2048), (1, 1024, 8, 8192)),
//                                            128 a thread
//
// Pipeline   producer: TMA to 3 stages each of A_shared and B_shared ahead of loop k
//            consumers: math by SM90_64x128x16_F32F16F16_SS

#ifndef TILEGEN_MATMUL_RELU_SM_90A_H
#define TILEGEN_MATMUL_RELU_SM_90A_H

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

// Enqueues C = max(A @ B, 0) on the stream. Returns cudaErrorInvalidValue where the contract above is broken.
extern "C" cudaError_t matmul_relu_launch(const half* A, const half* B, half* C, int M, int N, int K,
                                          cudaStream_t stream);

#endif  // TILEGEN_MATMUL_RELU_SM_90A_H
