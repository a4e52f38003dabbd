// attention: O, LSE from Q, K, V                                                      CUDA, sm_90a
//
// Emitted by tilegen 0.1.0 from examples/attention.py:15 (sha256 87599955). Do not edit; regenerate with
//   tilegen emit examples/attention.py:attention --target sm_90a --dim B=4 --dim S_q=4096 --dim H=32 --dim D=128
//     --dim S_k=4096 --dim H_kv=32 --set causal=True
//
// Launch     grid  min(tiles, multiprocessors), tiles = 4 * 32 * 32   (persistent, the longest tiles first)
//            block 384 threads = 1 producer warpgroup + 2 consumer warpgroups
//            dynamic shared memory 197,632 bytes; registers 168 at entry, then 24 (producer) and 240 (consumer)
//
// Arguments  Q, K, V, O    fp16 [4, 4096, 32, 128] row-major, 16-byte aligned
//            LSE           fp32 [4, 32, 4096] row-major
//            tile_counter  int32 [1] contiguous, scratch memory of one launch at a time, set to 0 by the launcher
//            A tensor that is written overlaps no other.
//
// Buffer             scope      shape               layout (Shape:Stride, elements)              bytes  bank conflicts
// Q_shared           shared     fp16 [128, 128]     Sw<3,3,3> o (128, (64, 2)):(64, (1, 8192))  32,768  0
// K_shared           shared     fp16 [2][128, 128]  Sw<3,3,3> o (128, (64, 2)):(64, (1, 8192))  65,536  0
// V_shared           shared     fp16 [2][128, 128]  Sw<3,3,3> o (128, (64, 2)):(64, (1, 8192))  65,536  0
// O_shared           shared     fp16 [128, 128]     Sw<3,3,3> o (128, (64, 2)):(64, (1, 8192))  32,768  0
// Q_local, P         registers  fp16 [128, 128]     ((4, 8, 8), (2, 2, 16)):((2, 128, 2048), (1, 1024, 8)), 64 a thread
// S, O_local         registers  fp32 [128, 128]     ((4, 8, 8), (2, 2, 16)):((2, 128, 2048), (1, 1024, 8)), 64 a thread
// m, m_old, alpha, l registers  fp32 [128]          ((4, 8, 8), 2):((0, 1, 16), 8), 2 a thread
//
// Pipeline   producer: TMA to Q_shared once a tile, 2 stages each of K_shared and V_shared ahead of loop j
//            producer: draws the block's next tile from tile_counter, ahead of its loads for this one
//            consumers: math by SM90_64x128x16_F32F16F16_RS
//            loop j is skewed: O_local of iteration j - 1 runs under the element-wise work on S of iteration j
//            the 2 consumer warpgroups take turns to issue gemms: one multiplies while the other works

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

constexpr int kB = 4, kSQ = 4096, kH = 32, kD = 128, kSK = 4096;  // of the tensors' shapes
constexpr int kBlockM = 128, kBlockN = 128;
constexpr float kScaleLog2 = 0.12751743f, kScale = 0.088388346f;
constexpr int kTilesBx = 32;                         // T.ceildiv(S_q, block_M)
constexpr int kSection = 16;                         // blocks of the outer axes that run side by side
constexpr int kWarpgroup = 128;                      // threads
constexpr int kConsumers = 2;                        // warpgroups that compute; one more loads
constexpr int kConsumerRows = kBlockM / kConsumers;  // of a tile, for each of them
constexpr int kThreads = kWarpgroup * (1 + kConsumers);
constexpr int kEntryRegisters = 168;                              // 65,536 over the resident threads, in steps of 8
constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;  // of a thread, once the roles part
constexpr int kStages = 2;
constexpr int kSwizzleColumns = 64;   // fp16 elements in one 128-byte swizzle row
constexpr u32 kAtomBytes = 8 * 128;   // 8 rows, the period of the 128-byte swizzle
constexpr int kWarpgroupBarrier = 2;  // of the first consumer warpgroup; 0 is __syncthreads, 1 of all consumers
constexpr int kTurnBarrier = 4;       // the first of the two that pass the turn to issue gemms

struct alignas(1024) SharedStorage {
  half Q_shared[kD / kSwizzleColumns][kBlockM][kSwizzleColumns];
  half K_shared[kStages][kD / kSwizzleColumns][kBlockN][kSwizzleColumns];
  half V_shared[kStages][kD / kSwizzleColumns][kBlockN][kSwizzleColumns];
  half O_shared[kD / kSwizzleColumns][kBlockM][kSwizzleColumns];
  u64 Q_full, Q_empty;
  u64 K_full[kStages], K_empty[kStages];
  u64 V_full[kStages], V_empty[kStages];
  u64 tile_full, tile_empty;
  int next_tile;  // of this block, drawn by the producer
};

constexpr int kSharedBytes = sizeof(SharedStorage);
static_assert(kSharedBytes == 197632, "the shared memory that the header above states");
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
TILEGEN_DEVICE void tma_load_4d(void* tile, const CUtensorMap& map, int c0, int c1, int c2, int c3, u64& barrier) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3, %4, %5}], [%6];"
               : : "r"(shared_address(tile)), "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(c3),
                   "r"(shared_address(&barrier)) : "memory");
}
TILEGEN_DEVICE void tma_store_4d(const CUtensorMap& map, const void* tile, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
               : : "l"(&map), "r"(shared_address(tile)), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
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

// The dimension of a wgmma operand that is contiguous in shared memory; the value is the instruction's transpose bit
enum class Major { K, MN };

template <Major kMajorB>
struct SM90_64x128x16_F32F16F16_RS {  // D[64, 128] (+)= A[64, 16] B[16, 128]; A in registers, B in shared memory
  static TILEGEN_DEVICE void fma(float (&d)[64], const u32 (&a)[4], u64 b, bool accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
                 TILEGEN_D64 ", {%64, %65, %66, %67}, %68, p, 1, 1, %70;\n}"
                 : TILEGEN_OPERANDS_D64(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(accumulate)), "n"(int(kMajorB)));
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
TILEGEN_DEVICE void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" : : "r"(id), "r"(threads) : "memory");
}

// ex2: PTX ISA 9.7.3.21; relative error 2^-22, exp2(-inf) = 0
TILEGEN_DEVICE float exp2_approx(float x) {
  asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}
// clang-format on

// --------------------------------------------------------------------------------------------- device helpers

TILEGEN_DEVICE float infinity() { return __int_as_float(0x7F800000); }

// (bx, h, b) of a tile: sections of kSection blocks of the outer axes, whose tensors stay in L2, longest tiles first
TILEGEN_DEVICE int3 tile_coordinates(int tile, int bx_tiles, int h_tiles, int b_tiles) {
  const int first = tile / (kSection * bx_tiles) * kSection;
  const int width = min(h_tiles * b_tiles - first, kSection);
  const int local = tile - first * bx_tiles;
  const int other = first + local % width;
  return {bx_tiles - 1 - local / width, other % h_tiles, other / h_tiles};
}

// Loads a tile, one column group after another; the barrier's phase ends with the last byte
template <int kGroups, class Group>
TILEGEN_DEVICE void load_tile(Group (&tile)[kGroups], const CUtensorMap& map, int c1, int c2, int c3, u64& barrier) {
  mbarrier_arrive_expect_tx(barrier, sizeof(tile));
  for (int group = 0; group < kGroups; ++group)
    tma_load_4d(tile[group], map, group * kSwizzleColumns, c1, c2, c3, barrier);
}

// Iteration t of a pipeline takes buffer t % kStages of its rings, for the (t / kStages)-th time
TILEGEN_DEVICE u32 stage_of(u32 t) { return t % kStages; }
TILEGEN_DEVICE u32 phase_of(u32 t) { return t / kStages % 2; }

}  // namespace

// --------------------------------------------------------------------------------------------- kernel

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    attention(const __grid_constant__ CUtensorMap Q, const __grid_constant__ CUtensorMap K,
              const __grid_constant__ CUtensorMap V, const __grid_constant__ CUtensorMap O, float* __restrict__ LSE,
              int* __restrict__ tile_counter) {
  SharedStorage& shared = shared_storage();
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / kWarpgroup, 0);  // 0 produces, 1 and 2 consume; lanes agree

  if (threadIdx.x == 0) {
    mbarrier_init(shared.tile_full, 1);
    mbarrier_init(shared.tile_empty, kConsumers * kWarpgroup);
    mbarrier_init(shared.Q_full, 1);
    mbarrier_init(shared.Q_empty, kConsumers);
    for (int stage = 0; stage < kStages; ++stage) {
      mbarrier_init(shared.K_full[stage], 1);
      mbarrier_init(shared.K_empty[stage], kConsumers);
      mbarrier_init(shared.V_full[stage], 1);
      mbarrier_init(shared.V_empty[stage], kConsumers);
    }
    fence_barrier_init();  // so that TMA finds them ready
  }
  __syncthreads();

  // ---------------------------------------------------------------------------------------------- producer
  if (warpgroup == 0) {
    register_release<kProducerRegisters>();
    if (threadIdx.x == 0) {
      int done = 0;  // iterations of j in tiles before
      for (int tile = blockIdx.x, round = 0; tile < kTilesBx * kH * kB; ++round) {
        const auto [bx, h, b] = tile_coordinates(tile, kTilesBx, kH, kB);
        // The next tile that no block has; the first ones went by the block's index
        const int drawn = gridDim.x + atomicAdd(tile_counter, 1);

        // attention.py:55  T.copy(Q[b, bx * block_M : (bx + 1) * block_M, h, :], Q_shared)
        mbarrier_wait(shared.Q_empty, (round % 2) ^ 1);  // passes at once the first time
        load_tile(shared.Q_shared, Q, h, bx * kBlockM, b, shared.Q_full);

        const int keys = min((bx + 1) * kBlockM, kSK);
        const int j_tiles = (keys + kBlockN - 1) / kBlockN;

        // attention.py:62  for j in T.Pipelined(T.ceildiv(keys, block_N), num_stages=num_stages)
#pragma unroll 1
        for (int j = 0; j < j_tiles; ++j) {
          // attention.py:63  T.copy(K[b, j * block_N : (j + 1) * block_N, h // (H // H_kv), :], K_shared)
          mbarrier_wait(shared.K_empty[stage_of(done + j)], phase_of(done + j) ^ 1);
          load_tile(shared.K_shared[stage_of(done + j)], K, h, j * kBlockN, b, shared.K_full[stage_of(done + j)]);

          // attention.py:83  T.copy(V[b, j * block_N : (j + 1) * block_N, h // (H // H_kv), :], V_shared)
          mbarrier_wait(shared.V_empty[stage_of(done + j)], phase_of(done + j) ^ 1);
          load_tile(shared.V_shared[stage_of(done + j)], V, h, j * kBlockN, b, shared.V_full[stage_of(done + j)]);
        }
        done += j_tiles;

        // Tells the consumers which tile is next
        tile = drawn;
        mbarrier_wait(shared.tile_empty, (round % 2) ^ 1);
        shared.next_tile = tile;
        mbarrier_arrive(shared.tile_full);
      }
    }
    return;
  }

  // ---------------------------------------------------------------------------------------------- consumers
  register_acquire<kConsumerRegisters>();
  const int thread = threadIdx.x % kWarpgroup;
  const int consumer = warpgroup - 1;
  const int warp = thread / 32;
  const int lane = thread % 32;
  if (consumer == kConsumers - 1) named_barrier_arrive(kTurnBarrier, 2 * kWarpgroup);  // consumer 0 issues first

  int done = 0;  // iterations of j in tiles before
  for (int tile = blockIdx.x, round = 0; tile < kTilesBx * kH * kB; ++round) {
    const auto [bx, h, b] = tile_coordinates(tile, kTilesBx, kH, kB);

    // [r] is row kConsumerRows * consumer + 16 * warp + lane / 4 + 8 * (r / 2 % 2),
    // column 2 * (lane % 4) + r % 2 + 8 * (r / 4)
    alignas(4) half Q_local[64], P[64];
    float S[64];
    float O_local[64] = {};  // attention.py:58  T.fill(O_local, 0)
    // [r] is element kConsumerRows * consumer + 16 * warp + lane / 4 + 8 * r
    float m[2] = {-infinity(), -infinity()};  // attention.py:60  T.fill(m, -T.infinity(T.float32))
    float m_old[2], alpha[2];
    float l[2] = {};  // attention.py:59  T.fill(l, 0)

    mbarrier_wait(shared.Q_full, round % 2);

    // attention.py:57  T.copy(Q_shared, Q_local)
#pragma unroll
    for (int r = 0; r < 64; r += 2) {
      const int row = kConsumerRows * consumer + 16 * warp + lane / 4 + 8 * (r / 2 % 2);
      const int column = 2 * (lane % 4) + 8 * (r / 4);
      *reinterpret_cast<u32*>(&Q_local[r]) = *reinterpret_cast<const u32*>(
          &shared.Q_shared[column / kSwizzleColumns][row][(column % kSwizzleColumns) ^ (8 * (row % 8))]);
    }
    named_barrier_sync(kWarpgroupBarrier + consumer, kWarpgroup);  // all its threads have read Q_shared
    if (thread == 0) mbarrier_arrive(shared.Q_empty);

    // attention.py:61  keys = T.min((bx + 1) * block_M + (S_k - S_q), S_k) if causal else S_k
    const int keys = min((bx + 1) * kBlockM, kSK);
    const int j_tiles = (keys + kBlockN - 1) / kBlockN;

    const auto issue_S = [&](int j) {
      // attention.py:64  T.gemm(Q_local, K_shared, S, transpose_B=True, clear_accum=True)
      mbarrier_wait(shared.K_full[stage_of(done + j)], phase_of(done + j));
      const u64 descriptor_b = descriptor_sw128(shared.K_shared[stage_of(done + j)], 0, kAtomBytes);
      warpgroup_arrive();
#pragma unroll
      for (int kk = 0; kk < kD / 16; ++kk)  // in 16-byte units: B advances 16 columns, every 64 to the next group
        SM90_64x128x16_F32F16F16_RS<Major::K>::fma(
            S, reinterpret_cast<const u32(&)[4]>(Q_local[8 * kk]),
            descriptor_b + 2 * (kk % 4) + sizeof(shared.K_shared[0][0]) / 16 * (kk / 4), kk > 0);
      warpgroup_commit();
    };

    const auto issue_O_local = [&](int j) {
      // attention.py:84  T.gemm(P, V_shared, O_local)
      mbarrier_wait(shared.V_full[stage_of(done + j)], phase_of(done + j));
      const u64 descriptor_b =
          descriptor_sw128(shared.V_shared[stage_of(done + j)], sizeof(shared.V_shared[0][0]), kAtomBytes);
      warpgroup_arrive();
#pragma unroll
      for (int kk = 0; kk < kBlockN / 16; ++kk)  // in 16-byte units: B advances 16 rows
        SM90_64x128x16_F32F16F16_RS<Major::MN>::fma(O_local, reinterpret_cast<const u32(&)[4]>(P[8 * kk]),
                                                    descriptor_b + 2 * kAtomBytes / 16 * kk, true);
      warpgroup_commit();
    };

    const auto work_beside = [&, bx = bx](int j) {
      // attention.py:67  S[i, n] = T.if_then_else(j * block_N + n < seen, S[i, n], -T.infinity(T.float32))
      if (j * kBlockN + kBlockN - 1 >= bx * kBlockM + 1) {  // where the mask hides something
#pragma unroll
        for (int r = 0; r < 64; ++r) {
          const int i = kConsumerRows * consumer + 16 * warp + lane / 4 + 8 * (r / 2 % 2);
          const int n = 2 * (lane % 4) + r % 2 + 8 * (r / 4);
          const int seen = min(bx * kBlockM + i + 1, kSK);
          S[r] = j * kBlockN + n < seen ? S[r] : -infinity();
        }
      }

      // attention.py:68  T.copy(m, m_old)
      for (int r = 0; r < 2; ++r) m_old[r] = m[r];

      // attention.py:69  T.reduce_max(S, m, dim=1, clear=False)
#pragma unroll
      for (int r = 0; r < 64; r += 2) m[r / 2 % 2] = fmaxf(m[r / 2 % 2], fmaxf(S[r], S[r + 1]));
      for (int r = 0; r < 2; ++r) {
        m[r] = fmaxf(m[r], __shfl_xor_sync(~0u, m[r], 1));
        m[r] = fmaxf(m[r], __shfl_xor_sync(~0u, m[r], 2));
      }

      // attention.py:71  m[i] = T.if_then_else((m[i] - m_old[i]) * scale_log2 > 8, m[i], m_old[i])
      for (int r = 0; r < 2; ++r) m[r] = (m[r] - m_old[r]) * kScaleLog2 > 8.0f ? m[r] : m_old[r];
      // attention.py:73  alpha[i] = T.exp2((m_old[i] - m[i]) * scale_log2)
      for (int r = 0; r < 2; ++r) alpha[r] = exp2_approx((m_old[r] - m[r]) * kScaleLog2);
      // attention.py:75  S[i, n] = T.exp2(S[i, n] * scale_log2 - m[i] * scale_log2)
#pragma unroll
      for (int r = 0; r < 64; ++r) S[r] = exp2_approx(S[r] * kScaleLog2 - m[r / 2 % 2] * kScaleLog2);
      // attention.py:78  l[i] = l[i] * alpha[i] + l_block[i]
      for (int r = 0; r < 2; ++r) l[r] *= alpha[r];
      // attention.py:76  T.reduce_sum(S, l_block, dim=1)
#pragma unroll
      for (int r = 0; r < 64; r += 2) l[r / 2 % 2] += S[r] + S[r + 1];
    };

    const auto work_after = [&]() {  // attention.py:79  T.copy(S, P)
#pragma unroll
      for (int r = 0; r < 64; r += 2) *reinterpret_cast<half2*>(&P[r]) = __floats2half2_rn(S[r], S[r + 1]);

      // attention.py:82  O_local[i, d] *= alpha[i]
      if (__any_sync(~0u, alpha[0] != 1.0f || alpha[1] != 1.0f)) {  // else no row of the warp asks for it
#pragma unroll
        for (int r = 0; r < 64; ++r) O_local[r] *= alpha[r / 2 % 2];
      }
    };

    // First iteration: nothing runs beside it yet
    named_barrier_sync(kTurnBarrier + consumer, 2 * kWarpgroup);
    issue_S(0);
    named_barrier_arrive(kTurnBarrier + 1 - consumer, 2 * kWarpgroup);
    warpgroup_wait<0>();
    if (thread == 0) mbarrier_arrive(shared.K_empty[stage_of(done)]);
    work_beside(0);
    work_after();

    // Main loop: S of iteration j beside O_local of the iteration before it
    for (int j = 1; j < j_tiles; ++j) {  // attention.py:62
      named_barrier_sync(kTurnBarrier + consumer, 2 * kWarpgroup);
      issue_S(j);
      issue_O_local(j - 1);
      named_barrier_arrive(kTurnBarrier + 1 - consumer, 2 * kWarpgroup);

      warpgroup_wait<1>();  // S is there, O_local is still under way
      if (thread == 0) mbarrier_arrive(shared.K_empty[stage_of(done + j)]);
      work_beside(j);

      warpgroup_wait<0>();  // O_local is there too
      if (thread == 0) mbarrier_arrive(shared.V_empty[stage_of(done + j - 1)]);
      work_after();
    }

    // Last iteration's second gemm
    issue_O_local(j_tiles - 1);
    warpgroup_wait<0>();
    if (thread == 0) mbarrier_arrive(shared.V_empty[stage_of(done + j_tiles - 1)]);

    // attention.py:76: the lanes of a row add up the sums that each has kept
    for (int r = 0; r < 2; ++r) {
      l[r] += __shfl_xor_sync(~0u, l[r], 1);
      l[r] += __shfl_xor_sync(~0u, l[r], 2);
    }

    // Epilogue
    // attention.py:86  alpha[i] = 1 / l[i]
    for (int r = 0; r < 2; ++r) alpha[r] = 1.0f / l[r];

    // attention.py:88  O_local[i, d] *= alpha[i]
#pragma unroll
    for (int r = 0; r < 64; ++r) O_local[r] *= alpha[r / 2 % 2];

    // attention.py:89  T.copy(O_local, O[b, bx * block_M : (bx + 1) * block_M, h, :])
    if (thread == 0) tma_store_wait_read();  // O_shared of the previous tile has been read
    named_barrier_sync(kWarpgroupBarrier + consumer, kWarpgroup);
    const int row = kConsumerRows * consumer + 16 * warp + lane % 16;
#pragma unroll
    for (int j = 0; j < kD / 16; ++j) {  // one stmatrix writes 16 rows x 16 columns
      half2 fragment[4];
      for (int q = 0; q < 4; ++q) fragment[q] = __floats2half2_rn(O_local[8 * j + 2 * q], O_local[8 * j + 2 * q + 1]);
      const int chunk = (2 * (j % 4) + lane / 16) ^ (row % 8);  // 8-column chunk under the 128-byte swizzle
      stmatrix_x4(&shared.O_shared[j / 4][row][8 * chunk], reinterpret_cast<const u32(&)[4]>(fragment));
    }
    fence_proxy_async();
    named_barrier_sync(kWarpgroupBarrier + consumer, kWarpgroup);
    if (thread == 0) {
      for (int group = 0; group < kD / kSwizzleColumns; ++group)
        tma_store_4d(O, shared.O_shared[group][kConsumerRows * consumer], group * kSwizzleColumns, h,
                     bx * kBlockM + kConsumerRows * consumer, b);
      tma_store_commit();
    }

    // attention.py:91  LSE[b, h, bx * block_M + i] = m[i] * scale + T.log(l[i])
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int i = kConsumerRows * consumer + 16 * warp + lane / 4 + 8 * r;
      if (lane % 4 == 0) LSE[(b * kH + h) * kSQ + bx * kBlockM + i] = m[r] * kScale + logf(l[r]);
    }
    done += j_tiles;

    // The next tile, as the producer drew it
    mbarrier_wait(shared.tile_full, round % 2);
    tile = shared.next_tile;
    mbarrier_arrive(shared.tile_empty);
  }
  if (thread == 0) tma_store_wait_read();
}

// --------------------------------------------------------------------------------------------- host

#ifndef __CUDACC_RTC__

constexpr int kHKv = 32;  // of the tensors' shapes

// Describes a row-major tensor to the TMA unit under the 128-byte swizzle. Extents and boxes: elements, fastest first.
static cudaError_t encode_map(CUtensorMap* map, const void* data, const cuuint64_t (&extents)[4],
                              const cuuint32_t (&box)[4]) {
  void* encode = nullptr;  // found in the driver at run time: nothing links with it
  cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault);
  if (error == cudaSuccess && encode == nullptr) error = cudaErrorNotSupported;  // a driver before 12.0
  if (error != cudaSuccess) return error;

  cuuint64_t strides[4] = {sizeof(half)};  // in bytes
  for (int axis = 1; axis < 4; ++axis) strides[axis] = strides[axis - 1] * extents[axis - 1];
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
      map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, const_cast<void*>(data), extents, strides + 1, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// Enqueues attention on the stream. Returns cudaErrorInvalidValue where the contract above is broken.
extern "C" cudaError_t attention_launch(const half* Q, const half* K, const half* V, half* O, float* LSE,
                                        int* tile_counter, cudaStream_t stream) {
  if ((u64(Q) | u64(K) | u64(V) | u64(O)) % 16 != 0) return cudaErrorInvalidValue;

  CUtensorMap map_Q = {}, map_K = {}, map_V = {}, map_O = {};
  int device = 0, multiprocessors = 0;
  cudaError_t error = cudaFuncSetAttribute(attention, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error == cudaSuccess) error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess) error = encode_map(&map_Q, Q, {kD, kH, kSQ, kB}, {kSwizzleColumns, 1, kBlockM, 1});
  if (error == cudaSuccess) error = encode_map(&map_K, K, {kD, kHKv, kSK, kB}, {kSwizzleColumns, 1, kBlockN, 1});
  if (error == cudaSuccess) error = encode_map(&map_V, V, {kD, kHKv, kSK, kB}, {kSwizzleColumns, 1, kBlockN, 1});
  if (error == cudaSuccess) error = encode_map(&map_O, O, {kD, kH, kSQ, kB}, {kSwizzleColumns, 1, kConsumerRows, 1});
  if (error == cudaSuccess) error = cudaMemsetAsync(tile_counter, 0, sizeof(*tile_counter), stream);
  if (error != cudaSuccess) return error;

  const u64 tiles = kTilesBx * kH * kB;
  const u64 blocks = tiles < u64(multiprocessors) ? tiles : u64(multiprocessors);
  attention<<<u32(blocks), kThreads, kSharedBytes, stream>>>(map_Q, map_K, map_V, map_O, LSE, tile_counter);
  return cudaGetLastError();
}

#endif  // __CUDACC_RTC__
