// matmul_relu: C = max(A @ B, 0)                                                      CUDA, sm_80
//
// Emitted by tilegen 0.1.0 from examples/matmul.py:13 (sha256 4999f24c). Do not edit; regenerate with
//   tilegen emit examples/matmul.py:matmul_relu --target sm_80
//
// Launch     grid  ceil(M / 128) * ceil(N / 128), one tile a block
//            block 128 threads = 4 warps; compiled for 2 a multiprocessor
//            dynamic shared memory 49,152 bytes
//
// Arguments  A  fp16 [M, K] row-major, 16-byte aligned, K % 8 == 0
//            B  fp16 [K, N] row-major, 16-byte aligned, N % 8 == 0
//            C  fp16 [M, N] row-major, 16-byte aligned, N % 8 == 0
//            Requires M, N and K <= 2,147,418,112.
//            A tensor that is written overlaps no other.
//
// Buffer     scope      shape              layout (Shape:Stride, elements)             bytes  bank conflicts
// A_shared   shared     fp16 [3][128, 32]  Sw<2,3,3> o (128, 32):(32, 1)              24,576  0
// B_shared   shared     fp16 [3][32, 128]  Sw<3,3,3> o (32, (64, 2)):(64, (1, 2048))  24,576  0
// C_local    registers  fp32 [128, 128]    ((4, 8, 2, 2), (2, 2, 8, 4)):((2, 128, 8192, 64), (1, 1024, 8, 2048)),
//                                            128 a thread
//
// Pipeline   loop k: 3 stages, loads by cp.async 2 iterations ahead; one barrier an iteration
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

constexpr int kBlockM = 128, kBlockN = 128, kBlockK = 32;
constexpr int kRasterGroup = 8;  // tile rows walked together, so that what they share stays in L2
constexpr int kThreads = 128;
constexpr int kStages = 3;
constexpr int kSwizzleColumns = 64;  // fp16 elements in one 128-byte swizzle row

struct alignas(1024) SharedStorage {
  half B_shared[kStages][kBlockN / kSwizzleColumns][kBlockK][kSwizzleColumns];
  half A_shared[kStages][kBlockM][kBlockK];
};

constexpr int kSharedBytes = sizeof(SharedStorage);
static_assert(kSharedBytes == 49152, "the shared memory that the header above states");

// --------------------------------------------------------------------------------------------- device primitives
// clang-format off: operands of inline PTX stay one group a line

// cvta.to.shared: PTX ISA 9.7.9.20
TILEGEN_DEVICE u32 shared_address(const void* pointer) { return static_cast<u32>(__cvta_generic_to_shared(pointer)); }

TILEGEN_DEVICE SharedStorage& shared_storage() {  // all of dynamic shared memory
  extern __shared__ __align__(alignof(SharedStorage)) char shared_bytes[];
  return *reinterpret_cast<SharedStorage*>(shared_bytes);
}

// cp.async: PTX ISA 9.7.9.25
// 16 bytes, past L1; zeros where the source is not inside.
struct SM80_CP_ASYNC_CACHEGLOBAL_ZFILL {
  static TILEGEN_DEVICE void copy(void* shared, const void* global, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 : : "r"(shared_address(shared)), "l"(global), "r"(inside ? 16 : 0) : "memory");
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
// clang-format on

// --------------------------------------------------------------------------------------------- device helpers

// (bx, by) of a tile: panels of kRasterGroup tile rows, column by column inside a panel
TILEGEN_DEVICE int2 tile_coordinates(int tile, int bx_tiles, int by_tiles) {
  const int panel = tile / (kRasterGroup * bx_tiles);
  const int first_row = panel * kRasterGroup;
  const int rows = min(by_tiles - first_row, kRasterGroup);
  const int local = tile - panel * kRasterGroup * bx_tiles;
  return {local / rows, first_row + local % rows};
}

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

extern "C" __global__ void __launch_bounds__(kThreads, 2)
    matmul_relu(const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C, int M, int N, int K) {
  SharedStorage& shared = shared_storage();
  const int bx_tiles = (N + kBlockN - 1) / kBlockN;
  const int by_tiles = (M + kBlockM - 1) / kBlockM;
  const auto [bx, by] = tile_coordinates(blockIdx.x, bx_tiles, by_tiles);
  const int k_tiles = (K + kBlockK - 1) / kBlockK;
  const int thread = threadIdx.x;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  // [mi][ni][r] is row 64 * (warp % 2) + lane / 4 + 16 * mi + 8 * (r / 2),
  // column 64 * (warp / 2) + 2 * (lane % 4) + 8 * ni + r % 2
  float C_local[4][8][4] = {};  // matmul.py:24  T.clear(C_local)

  const int A_shared_row = thread / 4;  // this thread's first chunk of A_shared
  const int A_shared_column = 8 * (thread % 4);
  const int A_shared_place = A_shared_column ^ (8 * (A_shared_row / 2 % 4));  // where its row holds that column
  const half* A_shared_source = &A[i64(by * kBlockM + A_shared_row) * K + A_shared_column];
  const int B_shared_row = thread / 16;  // this thread's first chunk of B_shared
  const int B_shared_column = 8 * (thread % 16);
  // where its row holds that column
  const int B_shared_place = (B_shared_column % kSwizzleColumns) ^ (8 * (B_shared_row % 8));
  const half* B_shared_source = &B[i64(B_shared_row) * N + bx * kBlockN + B_shared_column];
  // Starts the loads of iteration k into a stage of the ring
  const auto load_tiles = [&, by = by, bx = bx](int stage, int k) {
    // matmul.py:26  T.copy(A[by * block_M, k * block_K], A_shared)
    for (int i = 0; i < 4; ++i)
      SM80_CP_ASYNC_CACHEGLOBAL_ZFILL::copy(
          &shared.A_shared[stage][A_shared_row + 32 * i][A_shared_place],
          &A_shared_source[i64(32 * i) * K + k * kBlockK],
          by * kBlockM + A_shared_row + 32 * i < M && k * kBlockK + A_shared_column < K);

    // matmul.py:27  T.copy(B[k * block_K, bx * block_N], B_shared)
    for (int i = 0; i < 4; ++i)
      SM80_CP_ASYNC_CACHEGLOBAL_ZFILL::copy(
          &shared.B_shared[stage][B_shared_column / kSwizzleColumns][B_shared_row + 8 * i][B_shared_place],
          &B_shared_source[i64(k * kBlockK) * N + i64(8 * i) * N],
          k * kBlockK + B_shared_row + 8 * i < K && bx * kBlockN + B_shared_column < N);
  };

  // Prologue: the first stages
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (stage < k_tiles) load_tiles(stage, stage);
    cp_async_commit();
  }

  u32 a_fragment[2][4][4];
  const int a_row = 64 * (warp % 2) + lane % 16;      // row of A that the lane points ldmatrix at
  const int a_chunk = (lane / 16) ^ (a_row / 2 % 4);  // and chunk of 8 columns, swizzled
  u32 b_fragment[2][8][2];
  const int b_row = lane % 16;                    // row of B that the lane points ldmatrix at
  const int b_chunk = (lane / 16) ^ (b_row % 8);  // and chunk of 8 columns, swizzled
  // Reads the operands of one step of 16 k from a stage into a slot of registers
  const auto load_operands = [&](int slot, int stage, int step) {
    for (int mi = 0; mi < 4; ++mi)
      ldmatrix_x4(a_fragment[slot][mi], &shared.A_shared[stage][a_row + 16 * mi][8 * (a_chunk ^ (2 * step))]);
    for (int ni = 0; ni < 8; ni += 2)
      ldmatrix_x4_trans(reinterpret_cast<u32(&)[4]>(b_fragment[slot][ni]),
                        &shared.B_shared[stage][warp / 2][b_row + 16 * step][8 * (b_chunk ^ ni)]);
  };

  cp_async_wait<kStages - 2>();
  __syncthreads();  // the first tile has landed
  if (k_tiles > 0) load_operands(0, 0, 0);
  int stage = 0;

  // Main loop
  // matmul.py:25  for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages)
#pragma unroll 1
  for (int k = 0; k < k_tiles; ++k) {
    const int next_stage = stage + 1 < kStages ? stage + 1 : 0;
    const int freed = stage > 0 ? stage - 1 : kStages - 1;  // all threads have left the tile before this one
    const int k_ahead = k + kStages - 1;

    // matmul.py:28  T.gemm(A_shared, B_shared, C_local)
#pragma unroll
    for (int kk = 0; kk < kBlockK / 16; ++kk) {
      // one step of 16 k ahead; at the end of the tile, in the next one, or in the last one again
      if (kk + 1 < kBlockK / 16) {
        load_operands((kk + 1) % 2, stage, kk + 1);
      } else {
        cp_async_wait<kStages - 2>();
        __syncthreads();  // the next tile has landed
        load_operands(0, k + 1 < k_tiles ? next_stage : stage, 0);
      }
      if (kk == 0) {
        if (k_ahead < k_tiles) load_tiles(freed, k_ahead);
        cp_async_commit();
      }
#pragma unroll
      for (int mi = 0; mi < 4; ++mi)
#pragma unroll
        for (int ni = 0; ni < 8; ++ni)
          SM80_16x8x16_F32F16F16F32_TN::fma(C_local[mi][ni], a_fragment[kk % 2][mi], b_fragment[kk % 2][ni]);
    }
    stage = next_stage;
  }

  // Epilogue
  // matmul.py:30  C_local[i, j] = T.max(C_local[i, j], 0)
#pragma unroll
  for (int mi = 0; mi < 4; ++mi)
#pragma unroll
    for (int ni = 0; ni < 8; ++ni)
      for (int r = 0; r < 4; ++r) C_local[mi][ni][r] = fmaxf(C_local[mi][ni][r], 0.0f);

  // matmul.py:31  T.copy(C_local, C[by * block_M, bx * block_N])
#pragma unroll
  for (int mi = 0; mi < 4; ++mi)
#pragma unroll
    for (int ni = 0; ni < 2; ++ni)
#pragma unroll
      for (int r = 0; r < 16; r += 8) {
        const int row = 64 * (warp % 2) + lane / 4 + 16 * mi + r;
        const int column = 64 * (warp / 2) + 8 * (lane % 4) + 32 * ni;
        alignas(16) half2 words[4];
        for (int q = 0; q < 4; ++q)
          words[q] = __floats2half2_rn(C_local[mi][4 * ni + q][r / 4], C_local[mi][4 * ni + q][r / 4 + 1]);
        transpose_quad(reinterpret_cast<u32(&)[4]>(words));
        if (by * kBlockM + row < M && bx * kBlockN + column < N)
          *reinterpret_cast<uint4*>(&C[i64(by * kBlockM + row) * N + bx * kBlockN + column]) =
              *reinterpret_cast<const uint4*>(&words[0]);
      }
}

// --------------------------------------------------------------------------------------------- host

#ifndef __CUDACC_RTC__

// Enqueues C = max(A @ B, 0) on the stream. Returns cudaErrorInvalidValue where the contract above is broken.
extern "C" cudaError_t matmul_relu_launch(const half* A, const half* B, half* C, int M, int N, int K,
                                          cudaStream_t stream) {
  if (M < 0 || N < 0 || K < 0 || N % 8 != 0 || K % 8 != 0) return cudaErrorInvalidValue;
  if (M > 0x7FFF0000 || N > 0x7FFF0000 || K > 0x7FFF0000) return cudaErrorInvalidValue;  // the last tile may leave int
  if ((u64(A) | u64(B) | u64(C)) % 16 != 0) return cudaErrorInvalidValue;

  const u64 blocks = (u64(N) + kBlockN - 1) / kBlockN * ((u64(M) + kBlockM - 1) / kBlockM);
  if (blocks == 0) return cudaSuccess;
  if (blocks > 0x7FFFFFFF) return cudaErrorInvalidValue;  // more than a grid holds
  matmul_relu<<<u32(blocks), kThreads, kSharedBytes, stream>>>(A, B, C, M, N, K);
  return cudaGetLastError();
}

#endif  // __CUDACC_RTC__
