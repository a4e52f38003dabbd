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

#define TILEGEN_DEVICE __device__ __forceinline__
using u32 = unsigned int;
using u64 = unsigned long long;

// --------------------------------------------------------------------------------------------- configuration

constexpr int kBlockM = 128, kBlockN = 128, kBlockK = 32;
constexpr int kRasterGroup = 8;  // tile rows walked together, so that what they share stays in L2
constexpr int kWarpgroup = 128;  // threads
constexpr int kConsumers = 1;    // warpgroups that compute; one more loads
constexpr int kThreads = kWarpgroup * (1 + kConsumers);
constexpr int kEntryRegisters = 128;                              // 65,536 over the resident threads, in steps of 8
constexpr int kProducerRegisters = 40, kConsumerRegisters = 216;  // of a thread, once the roles part
constexpr int kStages = 3;
constexpr int kSwizzleColumns = 64;  // fp16 elements in one 128-byte swizzle row
constexpr u32 kStageBytes = sizeof(half) * (kBlockM * kBlockK + kBlockK * kBlockN);  // awaited by full
constexpr u32 kAtomBytes128 = 8 * 128;  // 8 rows, the period of the 128-byte swizzle
constexpr u32 kAtomBytes64 = 8 * 64;    // 8 rows, the period of the 64-byte swizzle
constexpr int kWarpgroupBarrier = 2;    // of the first consumer warpgroup; 0 is __syncthreads, 1 of all consumers

struct alignas(1024) SharedStorage {
  half B_shared[kStages][kBlockN / kSwizzleColumns][kBlockK][kSwizzleColumns];
  half C_shared[kBlockN / kSwizzleColumns][kBlockM][kSwizzleColumns];
  half A_shared[kStages][kBlockM][kBlockK];
  u64 full[kStages], empty[kStages];
};

constexpr int kSharedBytes = sizeof(SharedStorage);
static_assert(kSharedBytes == 82944, "the shared memory that the header above states");
static_assert(kProducerRegisters + kConsumers * kConsumerRegisters <= kEntryRegisters * (1 + kConsumers),
              "the warpgroups ask for more registers than the block owns: setmaxnreg would wait for ever");

// --------------------------------------------------------------------------------------------- device primitives
// clang-format off: operands of inline PTX stay one group a line

// cvta.to.shared: PTX ISA 9.7.9.20
TILEGEN_DEVICE u32 shared_address(const void* pointer) { return static_cast<u32>(__cvta_generic_to_shared(pointer)); }

TILEGEN_DEVICE SharedStorage& shared_storage() {  // all of dynamic shared memory
  extern __shared__ __align__(alignof(SharedStorage)) char shared_bytes[];
  return *reinterpret_cast<SharedStorage*>(shared_bytes);
}

// mbarrier: PTX ISA 9.7.13.15
TILEGEN_DEVICE void mbarrier_init(u64& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}
TILEGEN_DEVICE void mbarrier_arrive(u64& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(shared_address(&barrier)) : "memory");
}
TILEGEN_DEVICE void mbarrier_arrive_expect_tx(u64& barrier, u32 bytes) {  // the phase ends after so many bytes more
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               : : "r"(shared_address(&barrier)), "r"(bytes) : "memory");
}
TILEGEN_DEVICE void mbarrier_wait(u64& barrier, u32 phase) {  // until the phase of this parity has ended
  asm volatile("{\n.reg .pred p;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra WAIT;\n}"
               : : "r"(shared_address(&barrier)), "r"(phase) : "memory");
}

// fence: PTX ISA 9.7.13.4
TILEGEN_DEVICE void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// Plain writes to shared memory become visible to TMA and wgmma.
TILEGEN_DEVICE void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// TMA: PTX ISA 9.7.9.27. Elements out of range are zero when loaded, dropped when stored.
TILEGEN_DEVICE void tma_load_2d(void* tile, const CUtensorMap& map, int c0, int c1, u64& barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3}], [%4];"
               : : "r"(shared_address(tile)), "l"(&map), "r"(c0), "r"(c1),
                   "r"(shared_address(&barrier)) : "memory");
}
TILEGEN_DEVICE void tma_store_2d(const CUtensorMap& map, const void* tile, int c0, int c1) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
               : : "l"(&map), "r"(shared_address(tile)), "r"(c0), "r"(c1) : "memory");
}
TILEGEN_DEVICE void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// The thread's stores have read shared memory.
TILEGEN_DEVICE void tma_store_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

// stmatrix: PTX ISA 9.7.14.5.16. 4 matrices of 8 x 8; lane 8 i + j points at row j of matrix i.
TILEGEN_DEVICE void stmatrix_x4(void* row, const u32 (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               : : "r"(shared_address(row)), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}

// wgmma: PTX ISA 9.7.15
TILEGEN_DEVICE void warpgroup_arrive() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TILEGEN_DEVICE void warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>  // at most kPending of the warpgroup's groups are still under way
TILEGEN_DEVICE void warpgroup_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(kPending) : "memory"); }

// Shared-memory matrix descriptor under the 64-byte swizzle (9.7.15.5.1); offsets in bytes
TILEGEN_DEVICE u64 descriptor_sw64(const void* tile, u32 leading_offset, u32 stride_offset) {
  const u64 address = (shared_address(tile) & 0x3FFFF) >> 4;
  return address | u64(leading_offset >> 4) << 16 | u64(stride_offset >> 4) << 32 | 2ull << 62;
}

// Shared-memory matrix descriptor under the 128-byte swizzle (9.7.15.5.1); offsets in bytes
TILEGEN_DEVICE u64 descriptor_sw128(const void* tile, u32 leading_offset, u32 stride_offset) {
  const u64 address = (shared_address(tile) & 0x3FFFF) >> 4;
  return address | u64(leading_offset >> 4) << 16 | u64(stride_offset >> 4) << 32 | 1ull << 62;
}

// The accumulators of a thread as operands, 8 in a row; below, all of them in an instruction's text and as operands
#define TILEGEN_RUN8(d, i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), \
  "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define TILEGEN_D64 \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, " \
  "%23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, " \
  "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"
#define TILEGEN_OPERANDS_D64(d) \
  TILEGEN_RUN8(d, 0), TILEGEN_RUN8(d, 8), TILEGEN_RUN8(d, 16), TILEGEN_RUN8(d, 24), TILEGEN_RUN8(d, 32), \
  TILEGEN_RUN8(d, 40), TILEGEN_RUN8(d, 48), TILEGEN_RUN8(d, 56)

struct SM90_64x128x16_F32F16F16_SS {  // D[64, 128] (+)= A[64, 16] B[16, 128]; A K-major, B MN-major in shared memory
  static TILEGEN_DEVICE void fma(float (&d)[64], u64 a, u64 b, bool accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
                 TILEGEN_D64 ", %64, %65, p, 1, 1, 0, 1;\n}"
                 : TILEGEN_OPERANDS_D64(d) : "l"(a), "l"(b), "r"(int(accumulate)));
  }
};

// setmaxnreg: PTX ISA 9.7.19.5. Warpgroups give registers to the block's pool, or wait for them.
template <int kRegisters>
TILEGEN_DEVICE void register_release() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(kRegisters)); }
template <int kRegisters>
TILEGEN_DEVICE void register_acquire() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(kRegisters)); }

// bar: PTX ISA 9.7.13.1. Barrier 0 is that of __syncthreads.
TILEGEN_DEVICE void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" : : "r"(id), "r"(threads) : "memory");
}
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

template <int kDepth>
struct RingState {  // position in a ring of kDepth buffers; the phase flips at each turn
  int stage = 0;
  u32 phase;
  __device__ explicit RingState(u32 first_phase) : phase(first_phase) {}
  TILEGEN_DEVICE void advance() {
    if (++stage == kDepth) {
      stage = 0;
      phase ^= 1;
    }
  }
};

}  // namespace

// --------------------------------------------------------------------------------------------- kernel

extern "C" __global__ void __launch_bounds__(kThreads, 2)
    matmul_relu(const __grid_constant__ CUtensorMap A, const __grid_constant__ CUtensorMap B,
                const __grid_constant__ CUtensorMap C, int M, int N, int K) {
  SharedStorage& shared = shared_storage();
  const int bx_tiles = (N + kBlockN - 1) / kBlockN;
  const int by_tiles = (M + kBlockM - 1) / kBlockM;
  const auto [bx, by] = tile_coordinates(blockIdx.x, bx_tiles, by_tiles);
  const int k_tiles = (K + kBlockK - 1) / kBlockK;
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / kWarpgroup, 0);  // 0 produces, 1 consumes; lanes agree

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      mbarrier_init(shared.full[stage], 1);
      mbarrier_init(shared.empty[stage], kConsumers);
    }
    fence_barrier_init();  // so that TMA finds them ready
  }
  __syncthreads();

  // ---------------------------------------------------------------------------------------------- producer
  if (warpgroup == 0) {
    register_release<kProducerRegisters>();
    if (threadIdx.x == 0) {
      RingState<kStages> ring(1);  // every stage starts empty

      // matmul.py:25  for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages)
      for (int k = 0; k < k_tiles; ++k) {
        mbarrier_wait(shared.empty[ring.stage], ring.phase);
        mbarrier_arrive_expect_tx(shared.full[ring.stage], kStageBytes);

        // matmul.py:26  T.copy(A[by * block_M, k * block_K], A_shared)
        tma_load_2d(shared.A_shared[ring.stage], A, k * kBlockK, by * kBlockM, shared.full[ring.stage]);

        // matmul.py:27  T.copy(B[k * block_K, bx * block_N], B_shared)
        for (int group = 0; group < kBlockN / kSwizzleColumns; ++group)
          tma_load_2d(shared.B_shared[ring.stage][group], B, bx * kBlockN + group * kSwizzleColumns, k * kBlockK,
                      shared.full[ring.stage]);
        ring.advance();
      }
    }
    return;
  }

  // ---------------------------------------------------------------------------------------------- consumers
  register_acquire<kConsumerRegisters>();
  const int thread = threadIdx.x % kWarpgroup;
  const int warp = thread / 32;
  const int lane = thread % 32;
  RingState<kStages> ring(0);
  // [mi][r] is row 16 * warp + lane / 4 + 64 * mi + 8 * (r / 2 % 2), column 2 * (lane % 4) + r % 2 + 8 * (r / 4)
  float C_local[2][64] = {};  // matmul.py:24  T.clear(C_local)

  // Main loop
  int released = 0;                    // the stage whose wgmma may still read it
  for (int k = 0; k < k_tiles; ++k) {  // matmul.py:25
    mbarrier_wait(shared.full[ring.stage], ring.phase);

    // matmul.py:28  T.gemm(A_shared, B_shared, C_local)
    const u64 descriptor_a = descriptor_sw64(shared.A_shared[ring.stage], 0, kAtomBytes64);
    const u64 descriptor_b =
        descriptor_sw128(shared.B_shared[ring.stage], sizeof(shared.B_shared[0][0]), kAtomBytes128);
    warpgroup_arrive();
    // in 16-byte units: A advances 16 columns, and 64 rows a repeat; B 16 rows
#pragma unroll
    for (int kk = 0; kk < kBlockK / 16; ++kk)
      for (int mi = 0; mi < 2; ++mi)
        SM90_64x128x16_F32F16F16_SS::fma(C_local[mi], descriptor_a + 2 * kk + 8 * kAtomBytes64 / 16 * mi,
                                         descriptor_b + 2 * kAtomBytes128 / 16 * kk, true);
    warpgroup_commit();
    warpgroup_wait<1>();  // the previous stage has been read
    if (k > 0 && thread == 0) mbarrier_arrive(shared.empty[released]);
    released = ring.stage;
    ring.advance();
  }
  warpgroup_wait<0>();
  // Nobody waits for it; without it ptxas may serialise the wgmma above (C7515)
  if (k_tiles > 0 && thread == 0) mbarrier_arrive(shared.empty[released]);

  // Epilogue
  // matmul.py:30  C_local[i, j] = T.max(C_local[i, j], 0)
#pragma unroll
  for (int mi = 0; mi < 2; ++mi)
#pragma unroll
    for (int r = 0; r < 64; ++r) C_local[mi][r] = fmaxf(C_local[mi][r], 0.0f);

  // matmul.py:31  T.copy(C_local, C[by * block_M, bx * block_N])
  const int row = 16 * warp + lane % 16;
#pragma unroll
  for (int mi = 0; mi < 2; ++mi)
#pragma unroll
    for (int j = 0; j < kBlockN / 16; ++j) {  // one stmatrix writes 16 rows x 16 columns
      half2 fragment[4];
      for (int q = 0; q < 4; ++q)
        fragment[q] = __floats2half2_rn(C_local[mi][8 * j + 2 * q], C_local[mi][8 * j + 2 * q + 1]);
      const int chunk = (2 * (j % 4) + lane / 16) ^ (row % 8);  // 8-column chunk under the 128-byte swizzle
      stmatrix_x4(&shared.C_shared[j / 4][row + 64 * mi][8 * chunk], reinterpret_cast<const u32(&)[4]>(fragment));
    }
  fence_proxy_async();
  named_barrier_sync(kWarpgroupBarrier, kWarpgroup);
  if (thread == 0) {
    for (int group = 0; group < kBlockN / kSwizzleColumns; ++group)
      tma_store_2d(C, shared.C_shared[group], bx * kBlockN + group * kSwizzleColumns, by * kBlockM);
    tma_store_commit();
    tma_store_wait_read();
  }
}

// --------------------------------------------------------------------------------------------- host

#ifndef __CUDACC_RTC__

// Describes a row-major tensor to the TMA unit. Extents and boxes: elements, fastest first.
static cudaError_t encode_map(CUtensorMap* map, const void* data, const cuuint64_t (&extents)[2],
                              const cuuint32_t (&box)[2], CUtensorMapSwizzle swizzle) {
  for (const cuuint64_t extent : extents)
    if (extent == 0) return cudaSuccess;  // nothing of the tensor will be moved

  void* encode = nullptr;  // found in the driver at run time: nothing links with it
  cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault);
  if (error == cudaSuccess && encode == nullptr) error = cudaErrorNotSupported;  // a driver before 12.0
  if (error != cudaSuccess) return error;

  cuuint64_t strides[2] = {sizeof(half)};  // in bytes
  for (int axis = 1; axis < 2; ++axis) strides[axis] = strides[axis - 1] * extents[axis - 1];
  const cuuint32_t steps[2] = {1, 1};
  const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
      map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, const_cast<void*>(data), extents, strides + 1, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// Enqueues C = max(A @ B, 0) on the stream. Returns cudaErrorInvalidValue where the contract above is broken.
extern "C" cudaError_t matmul_relu_launch(const half* A, const half* B, half* C, int M, int N, int K,
                                          cudaStream_t stream) {
  if (M < 0 || N < 0 || K < 0 || N % 8 != 0 || K % 8 != 0) return cudaErrorInvalidValue;
  if (M > 0x7FFF0000 || N > 0x7FFF0000 || K > 0x7FFF0000) return cudaErrorInvalidValue;  // the last tile may leave int
  if ((u64(A) | u64(B) | u64(C)) % 16 != 0) return cudaErrorInvalidValue;

  const u64 blocks = (u64(N) + kBlockN - 1) / kBlockN * ((u64(M) + kBlockM - 1) / kBlockM);
  if (blocks == 0) return cudaSuccess;
  if (blocks > 0x7FFFFFFF) return cudaErrorInvalidValue;  // more than a grid holds

  CUtensorMap map_A = {}, map_B = {}, map_C = {};
  cudaError_t error = cudaFuncSetAttribute(matmul_relu, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error == cudaSuccess)
    error = encode_map(&map_A, A, {u64(K), u64(M)}, {kBlockK, kBlockM}, CU_TENSOR_MAP_SWIZZLE_64B);
  if (error == cudaSuccess)
    error = encode_map(&map_B, B, {u64(N), u64(K)}, {kSwizzleColumns, kBlockK}, CU_TENSOR_MAP_SWIZZLE_128B);
  if (error == cudaSuccess)
    error = encode_map(&map_C, C, {u64(N), u64(M)}, {kSwizzleColumns, kBlockM}, CU_TENSOR_MAP_SWIZZLE_128B);
  if (error != cudaSuccess) return error;

  matmul_relu<<<u32(blocks), kThreads, kSharedBytes, stream>>>(map_A, map_B, map_C, M, N, K);
  return cudaGetLastError();
}

#endif  // __CUDACC_RTC__
