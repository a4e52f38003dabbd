// matmul_relu: C = max(A @ B, 0)                                                     CUDA, sm_90a
//
// Emitted by tilegen 0.1.0 from examples/matmul.py:12 (sha256 3f1c09a2). Do not edit; regenerate with
//   tilegen emit examples/matmul.py:matmul_relu --target sm_90a --set block_M=128 --set block_N=256 --set block_K=64
//
// Launch     grid  min(tiles, multiprocessors), tiles = ceil(M / 128) * ceil(N / 256)   (persistent)
//            block 384 threads = 1 producer warpgroup + 2 consumer warpgroups
//            dynamic shared memory 214,016 bytes; registers 168 at entry, then 40 (producer) and 232 (consumer)
//
// Arguments  A  fp16 [M, K] row-major, 16-byte aligned, K % 8 == 0
//            B  fp16 [K, N] row-major, 16-byte aligned, N % 8 == 0
//            C  fp16 [M, N] row-major, 16-byte aligned, N % 8 == 0
//
// Buffer     scope      shape                 layout (Shape:Stride, elements)                   bytes  bank conflicts
// A_shared   shared     fp16 [3][128, 64]     Sw<3,3,3> o (128, 64):(64, 1)                    49,152  0
// B_shared   shared     fp16 [3][64, 256]     Sw<3,3,3> o (64, (64, 4)):(64, (1, 4096))        98,304  0
// C_shared   shared     fp16 [128, 256]       Sw<3,3,3> o ((64, 2), (64, 4)):((64, 4096), (1, 8192))   65,536  0
// C_local    registers  fp32 [128, 256]       ((4, 8, 4, 2), (2, 2, 32)) -> 128 a thread            -  -
//
// Pipeline   k: 3 stages, full/empty barriers over {A_shared, B_shared}; loads by TMA, math by wgmma m64n256k16

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

constexpr int kBlockM = 128;
constexpr int kBlockN = 256;
constexpr int kBlockK = 64;
constexpr int kStages = 3;
constexpr int kConsumers = 2;    // warpgroups; each owns 64 rows of the tile
constexpr int kWarpgroup = 128;  // threads
constexpr int kThreads = kWarpgroup * (1 + kConsumers);
constexpr int kEntryRegisters = 168;  // 65,536 over the block's threads, in steps of 8
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;
constexpr int kRasterGroup = 8;      // tile rows walked together, so that B stays in L2
constexpr int kSwizzleColumns = 64;  // fp16 elements in one 128-byte swizzle row
constexpr int kColumnGroups = kBlockN / kSwizzleColumns;

struct alignas(1024) SharedStorage {
  half A_shared[kStages][kBlockM][kBlockK];
  half B_shared[kStages][kColumnGroups][kBlockK][kSwizzleColumns];
  half C_shared[kColumnGroups][kConsumers][64][kSwizzleColumns];
  u64 full[kStages];
  u64 empty[kStages];
};

constexpr int kSharedBytes = sizeof(SharedStorage);
constexpr u32 kStageBytes = sizeof(half) * (kBlockM + kBlockN) * kBlockK;

static_assert(kSharedBytes <= 227 * 1024, "the tile and its stages exceed the shared memory of sm_90");
static_assert(kProducerRegisters + kConsumers * kConsumerRegisters <= kEntryRegisters * (1 + kConsumers),
              "the warpgroups ask for more registers than the block owns: setmaxnreg would wait for ever");

// --------------------------------------------------------------------------------------------- device primitives
// clang-format off: operands of inline PTX stay one group a line

@PRIMITIVES@
// clang-format on

// --------------------------------------------------------------------------------------------- device helpers

struct PipelineState {  // position in a ring of kStages buffers
  int stage = 0;
  u32 phase;
  __device__ explicit PipelineState(u32 first_phase) : phase(first_phase) {}
  TILEGEN_DEVICE void advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

struct TileCoordinates {
  int m, n;
};

// Row groups of kRasterGroup tiles, column by column inside a group                  matmul.py:19  T.use_swizzle
TILEGEN_DEVICE TileCoordinates tile_coordinates(int tile, int tiles_m, int tiles_n) {
  const int group = tile / (kRasterGroup * tiles_n);
  const int first_row = group * kRasterGroup;
  const int rows = min(tiles_m - first_row, kRasterGroup);
  const int local = tile - group * kRasterGroup * tiles_n;
  return {first_row + local % rows, local / rows};
}

}  // namespace

// --------------------------------------------------------------------------------------------- kernel

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    matmul_relu(const __grid_constant__ CUtensorMap A, const __grid_constant__ CUtensorMap B,
                const __grid_constant__ CUtensorMap C, int M, int N, int K) {
  SharedStorage& shared = shared_storage();

  const int warpgroup = threadIdx.x / kWarpgroup;  // 0 produces, 1 and 2 consume
  const int tiles_m = (M + kBlockM - 1) / kBlockM;
  const int tiles_n = (N + kBlockN - 1) / kBlockN;
  const int k_tiles = (K + kBlockK - 1) / kBlockK;

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      mbarrier_init(shared.full[stage], 1);
      mbarrier_init(shared.empty[stage], kConsumers);
    }
    fence_barrier_init();
  }
  __syncthreads();

  // ---------------------------------------------------------------------------------------------- producer
  if (warpgroup == 0) {
    register_release<kProducerRegisters>();
    if (threadIdx.x == 0) {
      PipelineState ring(1);  // every stage starts empty
      for (int tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x) {
        const auto [by, bx] = tile_coordinates(tile, tiles_m, tiles_n);
        for (int k = 0; k < k_tiles; ++k) {  // matmul.py:24  for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3)
          mbarrier_wait(shared.empty[ring.stage], ring.phase);
          mbarrier_arrive_expect_tx(shared.full[ring.stage], kStageBytes);

          // matmul.py:25  T.copy(A[by * block_M, k * block_K], A_shared)
          tma_load_2d(shared.A_shared[ring.stage], A, k * kBlockK, by * kBlockM, shared.full[ring.stage]);

          // matmul.py:26  T.copy(B[k * block_K, bx * block_N], B_shared)
#pragma unroll
          for (int group = 0; group < kColumnGroups; ++group)
            tma_load_2d(shared.B_shared[ring.stage][group], B, bx * kBlockN + group * kSwizzleColumns, k * kBlockK,
                        shared.full[ring.stage]);
          ring.advance();
        }
      }
    }
    return;
  }

  // ---------------------------------------------------------------------------------------------- consumers
  register_acquire<kConsumerRegisters>();
  const int consumer = warpgroup - 1;
  const int thread = threadIdx.x % kWarpgroup;
  const int warp = thread / 32;
  const int lane = thread % 32;
  float C_local[128];  // rows 64 * consumer + 16 * warp + lane / 4 (+ 8), columns 8 j + 2 (lane % 4)
  PipelineState ring(0);

  for (int tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x) {
    const auto [by, bx] = tile_coordinates(tile, tiles_m, tiles_n);

    // Main loop
    int released = 0;                    // the stage whose wgmma may still read it
    for (int k = 0; k < k_tiles; ++k) {  // matmul.py:24
      mbarrier_wait(shared.full[ring.stage], ring.phase);

      // matmul.py:27  T.gemm(A_shared, B_shared, C_local)
      const u64 a = descriptor_sw128(shared.A_shared[ring.stage][64 * consumer], 0, 8 * kBlockK * sizeof(half));
      const u64 b = descriptor_sw128(shared.B_shared[ring.stage], kBlockK * kSwizzleColumns * sizeof(half), 1024);
      warpgroup_arrive();
#pragma unroll
      for (int kk = 0; kk < kBlockK / 16; ++kk)  // in 16-byte units: A advances 16 columns, B 16 rows
        SM90_64x256x16_F32F16F16_SS<Major::K, Major::MN>::fma(C_local, a + 2 * kk, b + 128 * kk, k > 0 || kk > 0);
      warpgroup_commit();

      warpgroup_wait<1>();  // the previous stage has been read
      if (k > 0 && thread == 0) mbarrier_arrive(shared.empty[released]);
      released = ring.stage;
      ring.advance();
    }
    warpgroup_wait<0>();
    if (thread == 0) mbarrier_arrive(shared.empty[released]);

    // Epilogue
    // matmul.py:28  C_local[i, j] = T.max(C_local[i, j], 0)
#pragma unroll
    for (int r = 0; r < 128; ++r) C_local[r] = fmaxf(C_local[r], 0.0f);

    // matmul.py:30  T.copy(C_local, C[by * block_M, bx * block_N])
    if (thread == 0) tma_store_wait_read();  // C_shared of the previous tile has been read
    named_barrier_sync(1 + consumer, kWarpgroup);

    const int row = 16 * warp + lane % 16;
#pragma unroll
    for (int j = 0; j < kBlockN / 16; ++j) {  // one stmatrix writes 16 rows x 16 columns
      u32 fragment[4];
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const half2 pair = __floats2half2_rn(C_local[8 * j + 2 * q], C_local[8 * j + 2 * q + 1]);
        fragment[q] = reinterpret_cast<const u32&>(pair);
      }
      const int chunk = (2 * (j % 4) + lane / 16) ^ (row % 8);  // 8-column chunk under the 128-byte swizzle
      stmatrix_x4(&shared.C_shared[j / 4][consumer][row][8 * chunk], fragment);
    }
    fence_proxy_async();
    named_barrier_sync(1 + consumer, kWarpgroup);
    if (thread == 0) {
#pragma unroll
      for (int group = 0; group < kColumnGroups; ++group)
        tma_store_2d(C, shared.C_shared[group][consumer], bx * kBlockN + group * kSwizzleColumns,
                     by * kBlockM + 64 * consumer);
      tma_store_commit();
    }
  }
  if (thread == 0) tma_store_wait_read();
}

// --------------------------------------------------------------------------------------------- host

#ifndef __CUDACC_RTC__

namespace {

// Describes a row-major fp16 matrix to the TMA unit, loaded or stored in boxes under the 128-byte swizzle.
cudaError_t encode_tensor_map(CUtensorMap* map, const void* data, int rows, int columns, int box_rows,
                              int box_columns) {
  static void* encode = nullptr;
  if (encode == nullptr) {
    cudaDriverEntryPointQueryResult found;
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found);
    if (error != cudaSuccess) return error;
    if (found != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
  }
  const cuuint64_t extents[2] = {cuuint64_t(columns), cuuint64_t(rows)};
  const cuuint64_t row_bytes[1] = {cuuint64_t(columns) * sizeof(half)};
  const cuuint32_t box[2] = {cuuint32_t(box_columns), cuuint32_t(box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
      map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, const_cast<void*>(data), extents, row_bytes, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

// Enqueues C = max(A @ B, 0) on the stream. Returns cudaErrorInvalidValue for arguments that break the contract above.
extern "C" cudaError_t matmul_relu_launch(const half* A, const half* B, half* C, int M, int N, int K,
                                          cudaStream_t stream) {
  if (M <= 0 || N <= 0 || K <= 0 || K % 8 != 0 || N % 8 != 0) return cudaErrorInvalidValue;

  CUtensorMap map_A, map_B, map_C;
  cudaError_t error = encode_tensor_map(&map_A, A, M, K, kBlockM, kBlockK);
  if (error == cudaSuccess) error = encode_tensor_map(&map_B, B, K, N, kBlockK, kSwizzleColumns);
  if (error == cudaSuccess) error = encode_tensor_map(&map_C, C, M, N, 64, kSwizzleColumns);
  if (error != cudaSuccess) return error;

  int device = 0, multiprocessors = 0;
  error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess)
    error = cudaFuncSetAttribute(matmul_relu, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;

  const int tiles = ((M + kBlockM - 1) / kBlockM) * ((N + kBlockN - 1) / kBlockN);
  const int blocks = tiles < multiprocessors ? tiles : multiprocessors;
  matmul_relu<<<blocks, kThreads, kSharedBytes, stream>>>(map_A, map_B, map_C, M, N, K);
  return cudaGetLastError();
}

#endif  // __CUDACC_RTC__
