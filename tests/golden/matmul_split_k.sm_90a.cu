// matmul_split_k: C from A, B                                                         CUDA, sm_90a
//
// Emitted by tilegen 0.1.0 from examples/split_k.py:15 (sha256 5c506aa0). Do not edit; regenerate with
//   tilegen emit examples/split_k.py:matmul_split_k --target sm_90a --dim M=16 --dim K=14336 --dim N=4096
//
// Launch     grid  32 x 1 x 4
//            block 256 threads = 1 producer warpgroup + 1 consumer warpgroup; compiled for 2 a multiprocessor
//            dynamic shared memory 97,280 bytes; registers 128 at entry, then 40 (producer) and 216 (consumer)
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
// C_shared   shared     fp16 [16, 128]     Sw<3,3,3> o (16, (64, 2)):(64, (1, 1024))   4,096  0
// C_local    registers  fp32 [16, 128]     ((4, 8, 4), (2, 2, 4)):((2, 128, 32), (1, 1024, 8)), 16 a thread
//
// Pipeline   producer: TMA to 5 stages each of A_shared and B_shared ahead of loop step
//            consumers: math by SM80_16x8x16_F32F16F16F32_TN
//            not by wgmma: wgmma computes 64 rows at once, the tile has 16

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
using i64 = long long;
using u64 = unsigned long long;

// --------------------------------------------------------------------------------------------- configuration

constexpr int kK = 14336;  // of the tensors' shapes
constexpr int kSplitK = 4, kBlockM = 16, kBlockN = 128, kBlockK = 64;
constexpr int kTilesStep = 56;   // iterations of step
constexpr int kWarpgroup = 128;  // threads
constexpr int kConsumers = 1;    // warpgroups that compute; one more loads
constexpr int kThreads = kWarpgroup * (1 + kConsumers);
constexpr int kEntryRegisters = 128;                              // 65,536 over the resident threads, in steps of 8
constexpr int kProducerRegisters = 40, kConsumerRegisters = 216;  // of a thread, once the roles part
constexpr int kStages = 5;
constexpr int kSwizzleColumns = 64;  // fp16 elements in one 128-byte swizzle row
constexpr int kWarpsPerWarpgroup = 4;
constexpr u32 kStageBytes = sizeof(half) * (kBlockM * kBlockK + kBlockK * kBlockN);  // awaited by full
constexpr int kCLocalPartElements = 16 * kConsumers * kWarpgroup;                    // what a block leaves of C_local
constexpr int kConsumerBarrier = 1;   // of all consumers; barrier 0 is __syncthreads
constexpr int kWarpgroupBarrier = 2;  // of the first consumer warpgroup; 0 is __syncthreads, 1 of all consumers

struct alignas(1024) SharedStorage {
  half A_shared[kStages][kBlockM][kBlockK];
  half B_shared[kStages][kBlockN / kSwizzleColumns][kBlockK][kSwizzleColumns];
  half C_shared[kBlockN / kSwizzleColumns][kBlockM][kSwizzleColumns];
  u64 full[kStages], empty[kStages];
  int arrived;  // of the blocks that sum, before this one
};

constexpr int kSharedBytes = sizeof(SharedStorage);
static_assert(kSharedBytes == 97280, "the shared memory that the header above states");
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

// setmaxnreg: PTX ISA 9.7.19.5. Warpgroups give registers to the block's pool, or wait for them.
template <int kRegisters>
TILEGEN_DEVICE void register_release() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(kRegisters)); }
template <int kRegisters>
TILEGEN_DEVICE void register_acquire() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(kRegisters)); }

// bar: PTX ISA 9.7.13.1. Barrier 0 is that of __syncthreads.
TILEGEN_DEVICE void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" : : "r"(id), "r"(threads) : "memory");
}

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
    matmul_split_k(const __grid_constant__ CUtensorMap A, const __grid_constant__ CUtensorMap B,
                   const __grid_constant__ CUtensorMap C, float* __restrict__ C_local_parts,
                   u32* __restrict__ arrivals) {
  SharedStorage& shared = shared_storage();
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int bz = blockIdx.z;
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / kWarpgroup, 0);  // 0 produces, 1 consumes; lanes agree

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      mbarrier_init(shared.full[stage], 1);
      mbarrier_init(shared.empty[stage], kConsumers * kWarpsPerWarpgroup);
    }
    fence_barrier_init();  // so that TMA finds them ready
  }
  __syncthreads();

  // ---------------------------------------------------------------------------------------------- producer
  if (warpgroup == 0) {
    register_release<kProducerRegisters>();
    if (threadIdx.x == 0) {
      RingState<kStages> ring(1);  // every stage starts empty

      // split_k.py:35  for step in T.Pipelined(steps, num_stages=num_stages)
      for (int step = 0; step < kTilesStep; ++step) {
        mbarrier_wait(shared.empty[ring.stage], ring.phase);
        mbarrier_arrive_expect_tx(shared.full[ring.stage], kStageBytes);

        // split_k.py:37  T.copy(A[by * block_M, k], A_shared)
        tma_load_2d(shared.A_shared[ring.stage], A, (bz * (kK / kBlockK / kSplitK) + step) * kBlockK, by * kBlockM,
                    shared.full[ring.stage]);

        // split_k.py:38  T.copy(B[k, bx * block_N], B_shared)
        for (int group = 0; group < kBlockN / kSwizzleColumns; ++group)
          tma_load_2d(shared.B_shared[ring.stage][group], B, bx * kBlockN + group * kSwizzleColumns,
                      (bz * (kK / kBlockK / kSplitK) + step) * kBlockK, shared.full[ring.stage]);
        ring.advance();
      }
    }
    return;
  }

  // ---------------------------------------------------------------------------------------------- consumers
  register_acquire<kConsumerRegisters>();
  const int computing_thread = threadIdx.x - kWarpgroup;
  const int thread = threadIdx.x % kWarpgroup;
  const int warp = thread / 32;
  const int lane = thread % 32;
  RingState<kStages> ring(0);
  // [0][ni][r] is row lane / 4 + 8 * (r / 2), column 32 * warp + 2 * (lane % 4) + 8 * ni + r % 2
  alignas(16) float C_local[1][4][4] = {};  // split_k.py:34  T.clear(C_local)

  // Main loop
  for (int step = 0; step < kTilesStep; ++step) {  // split_k.py:35
    mbarrier_wait(shared.full[ring.stage], ring.phase);

    // split_k.py:39  T.gemm(A_shared, B_shared, C_local)
    u32 a_fragment[2][1][4];
    const int a_row = lane % 16;                    // row of A that the lane points ldmatrix at
    const int a_chunk = (lane / 16) ^ (a_row % 8);  // and chunk of 8 columns, swizzled
    u32 b_fragment[2][4][2];
    const int b_row = lane % 16;                                     // row of B that the lane points ldmatrix at
    const int b_chunk = (4 * (warp % 2) + lane / 16) ^ (b_row % 8);  // and chunk of 8 columns, swizzled
    ldmatrix_x4(a_fragment[0][0], &shared.A_shared[ring.stage][a_row][8 * a_chunk]);
    for (int ni = 0; ni < 4; ni += 2)
      ldmatrix_x4_trans(reinterpret_cast<u32(&)[4]>(b_fragment[0][ni]),
                        &shared.B_shared[ring.stage][warp / 2][b_row][8 * (b_chunk ^ ni)]);
#pragma unroll
    for (int kk = 0; kk < kBlockK / 16; ++kk) {  // loads run one step of 16 k ahead
      if (kk + 1 < kBlockK / 16) {
        ldmatrix_x4(a_fragment[(kk + 1) % 2][0], &shared.A_shared[ring.stage][a_row][8 * (a_chunk ^ (2 * (kk + 1)))]);
        for (int ni = 0; ni < 4; ni += 2)
          ldmatrix_x4_trans(reinterpret_cast<u32(&)[4]>(b_fragment[(kk + 1) % 2][ni]),
                            &shared.B_shared[ring.stage][warp / 2][b_row + 16 * (kk + 1)][8 * (b_chunk ^ ni)]);
      }
      for (int ni = 0; ni < 4; ++ni)
        SM80_16x8x16_F32F16F16F32_TN::fma(C_local[0][ni], a_fragment[kk % 2][0], b_fragment[kk % 2][ni]);
    }
    __syncwarp();  // all lanes have read A_shared and B_shared
    if (lane == 0) mbarrier_arrive(shared.empty[ring.stage]);
    ring.advance();
  }

  // Epilogue
  // split_k.py:40  T.sum_blocks(C_local, axis=bz)
  float* C_local_own = C_local_parts + i64(bx * kSplitK + bz) * kCLocalPartElements + 4 * computing_thread;
  for (int ni = 0; ni < 4; ++ni)
    *reinterpret_cast<float4*>(&C_local_own[4 * ni * kConsumers * kWarpgroup]) =
        *reinterpret_cast<const float4*>(&C_local[0][ni][0]);
  named_barrier_sync(kConsumerBarrier, kConsumers * kWarpgroup);  // all threads have stored their part
  if (computing_thread == 0) shared.arrived = count_in(arrivals[bx], kSplitK - 1);  // back to 0 with the last
  named_barrier_sync(kConsumerBarrier, kConsumers * kWarpgroup);
  if (shared.arrived == kSplitK - 1) {  // the last of them goes on
    const float* C_local_first = C_local_parts + i64(bx * kSplitK) * kCLocalPartElements + 4 * computing_thread;
#pragma unroll
    for (int ni = 0; ni < 4; ++ni) {
      *reinterpret_cast<float4*>(&C_local[0][ni][0]) =
          *reinterpret_cast<const float4*>(&C_local_first[4 * ni * kConsumers * kWarpgroup]);
#pragma unroll
      for (int part = 1; part < kSplitK; ++part) {  // loads of all parts run at once
        alignas(16) float partial[4];
        *reinterpret_cast<float4*>(&partial[0]) = *reinterpret_cast<const float4*>(
            &C_local_first[i64(part) * kCLocalPartElements + 4 * ni * kConsumers * kWarpgroup]);
        for (int v = 0; v < 4; ++v) C_local[0][ni][v] += partial[v];
      }
    }

    // split_k.py:41  T.copy(C_local, C[by * block_M, bx * block_N])
#pragma unroll
    for (int ni = 0; ni < 4; ++ni)
#pragma unroll
      for (int r = 0; r < 4; r += 2) {
        const int row = lane / 4 + 4 * r;
        const int column = 32 * warp + 2 * (lane % 4) + 8 * ni;
        *reinterpret_cast<half2*>(
            &shared.C_shared[column / kSwizzleColumns][row][(column % kSwizzleColumns) ^ (8 * (row % 8))]) =
            __floats2half2_rn(C_local[0][ni][r], C_local[0][ni][r + 1]);
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
}

// --------------------------------------------------------------------------------------------- host

#ifndef __CUDACC_RTC__

constexpr int kM = 16, kN = 4096;  // of the tensors' shapes
constexpr int kTilesBx = 32;       // T.ceildiv(N, block_N)

// Describes a row-major tensor to the TMA unit under the 128-byte swizzle. Extents and boxes: elements, fastest first.
static cudaError_t encode_map(CUtensorMap* map, const void* data, const cuuint64_t (&extents)[2],
                              const cuuint32_t (&box)[2]) {
  void* encode = nullptr;  // found in the driver at run time: nothing links with it
  cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault);
  if (error == cudaSuccess && encode == nullptr) error = cudaErrorNotSupported;  // a driver before 12.0
  if (error != cudaSuccess) return error;

  cuuint64_t strides[2] = {sizeof(half)};  // in bytes
  for (int axis = 1; axis < 2; ++axis) strides[axis] = strides[axis - 1] * extents[axis - 1];
  const cuuint32_t steps[2] = {1, 1};
  const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
      map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, const_cast<void*>(data), extents, strides + 1, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// Enqueues matmul_split_k on the stream. Returns cudaErrorInvalidValue where the contract above is broken.
extern "C" cudaError_t matmul_split_k_launch(const half* A, const half* B, half* C, float* C_local_parts,
                                             unsigned int* arrivals, cudaStream_t stream) {
  if ((u64(A) | u64(B) | u64(C) | u64(C_local_parts)) % 16 != 0) return cudaErrorInvalidValue;

  CUtensorMap map_A = {}, map_B = {}, map_C = {};
  cudaError_t error = cudaFuncSetAttribute(matmul_split_k, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error == cudaSuccess) error = encode_map(&map_A, A, {kK, kM}, {kBlockK, kBlockM});
  if (error == cudaSuccess) error = encode_map(&map_B, B, {kN, kK}, {kSwizzleColumns, kBlockK});
  if (error == cudaSuccess) error = encode_map(&map_C, C, {kN, kM}, {kSwizzleColumns, kBlockM});
  if (error != cudaSuccess) return error;

  matmul_split_k<<<dim3(kTilesBx, 1, kSplitK), kThreads, kSharedBytes, stream>>>(map_A, map_B, map_C, C_local_parts,
                                                                                 arrivals);
  return cudaGetLastError();
}

#endif  // __CUDACC_RTC__
