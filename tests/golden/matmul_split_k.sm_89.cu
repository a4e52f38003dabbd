// matmul_split_k: C from A, B                                                         CUDA, sm_89
//
// Emitted by tilegen 0.1.0 from examples/split_k.py:15 (sha256 5c506aa0). Do not edit; regenerate with
//   tilegen emit examples/split_k.py:matmul_split_k --target sm_89 --dim M=16 --dim K=14336 --dim N=4096
//
// Launch     grid  32 x 1 x 4
//            block 128 threads = 4 warps
//            dynamic shared memory 93,184 bytes
//
// Arguments  A              fp16 [16, 14336] row-major, 16-byte aligned
//            B              fp16 [14336, 4096] row-major, 16-byte aligned
//            C              fp16 [16, 4096] row-major, 16-byte aligned
//            C_local_parts  fp32 [32, 4, 4, 128, 4] row-major, 16-byte aligned, scratch memory of one launch at a time
//            arrivals       uint32 [32] contiguous, scratch memory of one launch at a time, 0 before the first launch,
//                           and again after each
//            A tensor that is written overlaps no other.
//
// Buffer     scope      shape              layout (Shape:Stride, elements)             bytes  bank conflicts
// A_shared   shared     fp16 [5][16, 64]   Sw<3,3,3> o (16, 64):(64, 1)               10,240  0
// B_shared   shared     fp16 [5][64, 128]  Sw<3,3,3> o (64, (64, 2)):(64, (1, 4096))  81,920  0
// C_local    registers  fp32 [16, 128]     ((4, 8, 4), (2, 2, 4)):((2, 128, 32), (1, 1024, 8)), 16 a thread
//
// Pipeline   loop step: 5 stages, loads by cp.async 4 iterations ahead; one barrier an iteration
//            math by SM80_16x8x16_F32F16F16F32_TN

#include <cuda_fp16.h>

#ifndef __CUDACC_RTC__
#include <cuda_runtime.h>
#endif

namespace {

#define TILEGEN_DEVICE __device__ __forceinline__
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

// --------------------------------------------------------------------------------------------- configuration

constexpr int kK = 14336, kN = 4096;  // of the tensors' shapes
constexpr int kSplitK = 4, kBlockM = 16, kBlockN = 128, kBlockK = 64;
constexpr int kTilesStep = 56;  // iterations of step
constexpr int kThreads = 128;
constexpr int kStages = 5;
constexpr int kSwizzleColumns = 64;                 // fp16 elements in one 128-byte swizzle row
constexpr int kCLocalPartElements = 16 * kThreads;  // what a block leaves of C_local

struct alignas(1024) SharedStorage {
  half A_shared[kStages][kBlockM][kBlockK];
  half B_shared[kStages][kBlockN / kSwizzleColumns][kBlockK][kSwizzleColumns];
  int arrived;  // of the blocks that sum, before this one
};

constexpr int kSharedBytes = sizeof(SharedStorage);
static_assert(kSharedBytes == 93184, "the shared memory that the header above states");

// --------------------------------------------------------------------------------------------- device primitives
// clang-format off: operands of inline PTX stay one group a line

// cvta.to.shared: PTX ISA 9.7.9.20
TILEGEN_DEVICE u32 shared_address(const void* pointer) { return static_cast<u32>(__cvta_generic_to_shared(pointer)); }

TILEGEN_DEVICE SharedStorage& shared_storage() {  // all of dynamic shared memory
  extern __shared__ __align__(alignof(SharedStorage)) char shared_bytes[];
  return *reinterpret_cast<SharedStorage*>(shared_bytes);
}

// cp.async: PTX ISA 9.7.9.25
// 16 bytes, past L1.
struct SM80_CP_ASYNC_CACHEGLOBAL {
  static TILEGEN_DEVICE void copy(void* shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(shared_address(shared)), "l"(global) : "memory");
  }
};

TILEGEN_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>  // at most kPending of the thread's groups are still under way
TILEGEN_DEVICE void cp_async_wait() { asm volatile("cp.async.wait_group %0;" : : "n"(kPending) : "memory"); }

// ldmatrix: PTX ISA 9.7.14.5.15
// 4 matrices of 8 x 8; lane 8 i + r points at row r of matrix i.
TILEGEN_DEVICE void ldmatrix_x4(u32 (&fragment)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(shared_address(row)) : "memory");
}
// 4 matrices of 8 x 8, transposed; lane 8 i + r points at row r of matrix i.
TILEGEN_DEVICE void ldmatrix_x4_trans(u32 (&fragment)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(shared_address(row)) : "memory");
}

// mma.m16n8k16: PTX ISA 9.7.14.5.8. D[16, 8] += A[16, 16] B[16, 8]; A row-major, B column-major.
struct SM80_16x8x16_F32F16F16F32_TN {
  static TILEGEN_DEVICE void fma(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};

// atom: PTX ISA 9.7.13.5. Counts the block in, up to last and on to 0; after it, the block sees what those wrote who
// have counted before. A barrier in front makes all threads' writes part of what is released.
TILEGEN_DEVICE u32 count_in(u32& counter, u32 last) {
  u32 before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before) : "l"(__cvta_generic_to_global(&counter)), "r"(last) : "memory");
  return before;
}
// clang-format on

// --------------------------------------------------------------------------------------------- device helpers

// Among each 4 lanes: word i of lane j and word j of lane i change places
TILEGEN_DEVICE void transpose_quad(u32 (&words)[4]) {
#pragma unroll
  for (int distance = 1; distance < 4; distance *= 2) {
    const bool upper = threadIdx.x & distance;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & distance) continue;
      const u32 received = __shfl_xor_sync(~0u, upper ? words[i] : words[i + distance], distance);
      if (upper)
        words[i] = received;
      else
        words[i + distance] = received;
    }
  }
}

}  // namespace

// --------------------------------------------------------------------------------------------- kernel

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    matmul_split_k(const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C,
                   float* __restrict__ C_local_parts, u32* __restrict__ arrivals) {
  SharedStorage& shared = shared_storage();
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int bz = blockIdx.z;
  const int thread = threadIdx.x;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  // [0][ni][r] is row lane / 4 + 8 * (r / 2), column 32 * warp + 2 * (lane % 4) + 8 * ni + r % 2
  alignas(16) float C_local[1][4][4] = {};  // split_k.py:34  T.clear(C_local)

  const int A_shared_row = thread / 8;  // this thread's first chunk of A_shared
  const int A_shared_column = 8 * (thread % 8);
  const int A_shared_place = A_shared_column ^ (8 * (A_shared_row % 8));  // where its row holds that column
  const half* A_shared_source = &A[i64(by * kBlockM + A_shared_row) * kK + A_shared_column];
  const int B_shared_row = thread / 16;  // this thread's first chunk of B_shared
  const int B_shared_column = 8 * (thread % 16);
  // where its row holds that column
  const int B_shared_place = (B_shared_column % kSwizzleColumns) ^ (8 * (B_shared_row % 8));
  const half* B_shared_source = &B[i64(B_shared_row) * kN + bx * kBlockN + B_shared_column];
  // Start the loads of iteration step into a stage of the ring
  const auto load_A_shared = [&](int stage, int step) {
    // split_k.py:37  T.copy(A[by * block_M, k], A_shared)
    SM80_CP_ASYNC_CACHEGLOBAL::copy(&shared.A_shared[stage][A_shared_row][A_shared_place],
                                    &A_shared_source[(bz * (kK / kBlockK / kSplitK) + step) * kBlockK]);
  };
  const auto load_B_shared = [&](int stage, int step) {  // split_k.py:38  T.copy(B[k, bx * block_N], B_shared)
#pragma unroll
    for (int i = 0; i < 8; ++i)
      SM80_CP_ASYNC_CACHEGLOBAL::copy(
          &shared.B_shared[stage][B_shared_column / kSwizzleColumns][B_shared_row + 8 * i][B_shared_place],
          &B_shared_source[i64((bz * (kK / kBlockK / kSplitK) + step) * kBlockK) * kN + i64(8 * i) * kN]);
  };

  // Prologue: the first stages
  for (int stage = 0; stage < kStages - 1; ++stage) {
    load_A_shared(stage, stage);
    load_B_shared(stage, stage);
    cp_async_commit();
  }

  u32 a_fragment[2][1][4];
  const int a_row = lane % 16;                    // row of A that the lane points ldmatrix at
  const int a_chunk = (lane / 16) ^ (a_row % 8);  // and chunk of 8 columns, swizzled
  u32 b_fragment[2][4][2];
  const int b_row = lane % 16;                                     // row of B that the lane points ldmatrix at
  const int b_chunk = (4 * (warp % 2) + lane / 16) ^ (b_row % 8);  // and chunk of 8 columns, swizzled
  // Reads the operands of one step of 16 k from a stage into a slot of registers
  const auto load_operands = [&](int slot, int stage, int step) {
    ldmatrix_x4(a_fragment[slot][0], &shared.A_shared[stage][a_row][8 * (a_chunk ^ (2 * step))]);
    for (int ni = 0; ni < 4; ni += 2)
      ldmatrix_x4_trans(reinterpret_cast<u32(&)[4]>(b_fragment[slot][ni]),
                        &shared.B_shared[stage][warp / 2][b_row + 16 * step][8 * (b_chunk ^ ni)]);
  };

  cp_async_wait<kStages - 2>();
  __syncthreads();  // the first tile has landed
  load_operands(0, 0, 0);
  int stage = 0;

  // Main loop
  // split_k.py:35  for step in T.Pipelined(steps, num_stages=num_stages)
#pragma unroll 1
  for (int step = 0; step < kTilesStep; ++step) {
    const int next_stage = stage + 1 < kStages ? stage + 1 : 0;
    const int freed = stage > 0 ? stage - 1 : kStages - 1;  // all threads have left the tile before this one
    const int step_ahead = step + kStages - 1;

    // split_k.py:39  T.gemm(A_shared, B_shared, C_local)
#pragma unroll
    for (int kk = 0; kk < kBlockK / 16; ++kk) {
      // one step of 16 k ahead; at the end of the tile, in the next one, or in the last one again
      if (kk + 1 < kBlockK / 16) {
        load_operands((kk + 1) % 2, stage, kk + 1);
      } else {
        cp_async_wait<kStages - 2>();
        __syncthreads();  // the next tile has landed
        load_operands(0, step + 1 < kTilesStep ? next_stage : stage, 0);
      }
      if (kk == 1 && step_ahead < kTilesStep) load_A_shared(freed, step_ahead);
      if (kk == 2) {
        if (step_ahead < kTilesStep) load_B_shared(freed, step_ahead);
        cp_async_commit();
      }
      for (int ni = 0; ni < 4; ++ni)
        SM80_16x8x16_F32F16F16F32_TN::fma(C_local[0][ni], a_fragment[kk % 2][0], b_fragment[kk % 2][ni]);
    }
    stage = next_stage;
  }

  // Epilogue
  // split_k.py:40  T.sum_blocks(C_local, axis=bz)
  float* C_local_own = C_local_parts + i64(bx * kSplitK + bz) * kCLocalPartElements + 4 * thread;
  for (int ni = 0; ni < 4; ++ni)
    *reinterpret_cast<float4*>(&C_local_own[4 * ni * kThreads]) = *reinterpret_cast<const float4*>(&C_local[0][ni][0]);
  __syncthreads();                                                        // all threads have stored their part
  if (thread == 0) shared.arrived = count_in(arrivals[bx], kSplitK - 1);  // back to 0 with the last
  __syncthreads();
  if (shared.arrived == kSplitK - 1) {  // the last of them goes on
    const float* C_local_first = C_local_parts + i64(bx * kSplitK) * kCLocalPartElements + 4 * thread;
#pragma unroll
    for (int ni = 0; ni < 4; ++ni) {
      *reinterpret_cast<float4*>(&C_local[0][ni][0]) =
          *reinterpret_cast<const float4*>(&C_local_first[4 * ni * kThreads]);
#pragma unroll
      for (int part = 1; part < kSplitK; ++part) {  // loads of all parts run at once
        alignas(16) float partial[4];
        *reinterpret_cast<float4*>(&partial[0]) =
            *reinterpret_cast<const float4*>(&C_local_first[i64(part) * kCLocalPartElements + 4 * ni * kThreads]);
        for (int v = 0; v < 4; ++v) C_local[0][ni][v] += partial[v];
      }
    }

    // split_k.py:41  T.copy(C_local, C[by * block_M, bx * block_N])
#pragma unroll
    for (int r = 0; r < 16; r += 8) {
      const int row = lane / 4 + r;
      const int column = 32 * warp + 8 * (lane % 4);
      alignas(16) half2 words[4];
      for (int q = 0; q < 4; ++q) words[q] = __floats2half2_rn(C_local[0][q][r / 4], C_local[0][q][r / 4 + 1]);
      transpose_quad(reinterpret_cast<u32(&)[4]>(words));
      *reinterpret_cast<uint4*>(&C[(by * kBlockM + row) * kN + bx * kBlockN + column]) =
          *reinterpret_cast<const uint4*>(&words[0]);
    }
  }
}

// --------------------------------------------------------------------------------------------- host

#ifndef __CUDACC_RTC__

constexpr int kTilesBx = 32;  // T.ceildiv(N, block_N)

// Enqueues matmul_split_k on the stream. Returns cudaErrorInvalidValue where the contract above is broken.
extern "C" cudaError_t matmul_split_k_launch(const half* A, const half* B, half* C, float* C_local_parts,
                                             unsigned int* arrivals, cudaStream_t stream) {
  if ((u64(A) | u64(B) | u64(C) | u64(C_local_parts)) % 16 != 0) return cudaErrorInvalidValue;

  cudaError_t error = cudaFuncSetAttribute(matmul_split_k, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;

  matmul_split_k<<<dim3(kTilesBx, 1, kSplitK), kThreads, kSharedBytes, stream>>>(A, B, C, C_local_parts, arrivals);
  return cudaGetLastError();
}

#endif  // __CUDACC_RTC__
