// attention: O = softmax(scale * Q @ K^T) @ V, causal, grouped KV heads                CUDA, sm_90a
//
// Emitted by tilegen 0.1.0 from examples/attention.py:7 (sha256 8b41d7e6). Do not edit; regenerate with
//   tilegen emit examples/attention.py:attention --target sm_90a --set causal=True --set block_M=128 --set block_N=128
//
// Launch     grid  tiles = ceil(S_q / 128) * H * B, one tile a block
//            block 384 threads = 1 producer warpgroup + 2 consumer warpgroups
//            dynamic shared memory 197,632 bytes; registers 168 at entry, then 24 (producer) and 240 (consumer)
//
// Arguments  Q      fp16 [B, S_q, H, 128] row-major, 16-byte aligned
//            K, V   fp16 [B, S_k, H_kv, 128] row-major, 16-byte aligned, H % H_kv == 0; S_k == S_q (causal)
//            O      fp16 [B, S_q, H, 128] row-major, 16-byte aligned
//            LSE    fp32 [B, H, S_q] row-major: the natural logarithm of the sum of exp(scale * Q @ K^T) over the keys
//            scale  fp32 > 0, of the scores before the softmax; usually 1 / sqrt(128)
//
// Buffer     scope      shape                 layout (Shape:Stride, elements)                   bytes  bank conflicts
// Q_shared   shared     fp16 [128, 128]       Sw<3,3,3> o (128, (64, 2)):(64, (1, 8192))       32,768  0
// K_shared   shared     fp16 [2][128, 128]    Sw<3,3,3> o (128, (64, 2)):(64, (1, 8192))       65,536  0
// V_shared   shared     fp16 [2][128, 128]    Sw<3,3,3> o (128, (64, 2)):(64, (1, 8192))       65,536  0
// O_shared   shared     fp16 [128, 128]       Sw<3,3,3> o (128, (64, 2)):(64, (1, 8192))       32,768  0
// P_local    registers  fp16 [128, 128]       ((4, 8, 4, 2), (2, 2, 16)) -> 64 a thread             -  -
// S, O_local registers  fp32 [128, 128]       ((4, 8, 4, 2), (2, 2, 16)) -> 64 a thread             -  -
// m, l       registers  fp32 [128]            ((4, 8, 4, 2), 2):((0, 1, 16, 64), 8) -> 2 a thread   -  -
//
// Pipeline   j: 2 stages, full/empty barriers over {K_shared} and {V_shared}; loads by TMA, math by wgmma m64n128k16
//            skewed by a block: scores and softmax of block j run beside P_local @ V_shared of the block before it
//            block_M == block_N: only the first block of a tile crosses the diagonal; it is peeled with its mask

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

constexpr bool kCausal = true;
constexpr int kBlockM = 128;  // queries
constexpr int kBlockN = 128;  // keys
constexpr int kDim = 128;
constexpr int kStages = 2;
constexpr int kConsumers = 2;    // warpgroups; each owns 64 rows of the tile
constexpr int kWarpgroup = 128;  // threads
constexpr int kThreads = kWarpgroup * (1 + kConsumers);
constexpr int kEntryRegisters = 168;  // 65,536 over the block's threads, in steps of 8
constexpr int kProducerRegisters = 24;
constexpr int kConsumerRegisters = 240;
constexpr int kSwizzleColumns = 64;  // fp16 elements in one 128-byte swizzle row
constexpr int kColumnGroups = kDim / kSwizzleColumns;
constexpr float kLog2E = 1.44269504f;  // exp(x) = exp2(x * kLog2E)

using Tile = half[kColumnGroups][128][kSwizzleColumns];

struct alignas(1024) SharedStorage {
  Tile Q_shared;
  Tile K_shared[kStages];
  Tile V_shared[kStages];
  Tile O_shared;
  u64 Q_full;
  u64 K_full[kStages], K_empty[kStages];
  u64 V_full[kStages], V_empty[kStages];
};

constexpr int kSharedBytes = sizeof(SharedStorage);
constexpr u32 kAtomBytes = 8 * sizeof(half) * kSwizzleColumns;  // 8 rows, the period of the swizzle
constexpr u32 kGroupBytes = sizeof(Tile) / kColumnGroups;       // from 64 columns to the next

static_assert(kSharedBytes <= 227 * 1024, "the tile and its stages exceed the shared memory of sm_90");
static_assert(kProducerRegisters + kConsumers * kConsumerRegisters <= kEntryRegisters * (1 + kConsumers),
              "the warpgroups ask for more registers than the block owns: setmaxnreg would wait for ever");
static_assert(kBlockM == 128 && kBlockN == 128, "the shapes of Tile, and of the part of S that holds the diagonal");

// --------------------------------------------------------------------------------------------- device primitives
// clang-format off: operands of inline PTX stay one group a line

@PRIMITIVES@
// clang-format on

// --------------------------------------------------------------------------------------------- device helpers

// Iteration t of a pipeline takes buffer t % kStages for the (t / kStages)-th time
TILEGEN_DEVICE int stage(int t) { return t % kStages; }
TILEGEN_DEVICE u32 phase(int t) { return t / kStages % 2; }

// Loads 128 rows of one head; the barrier completes with the last byte
TILEGEN_DEVICE void load_tile(Tile& tile, const CUtensorMap& map, int row, int head, int batch, u64& full) {
  mbarrier_arrive_expect_tx(full, sizeof(Tile));
  for (int group = 0; group < kColumnGroups; ++group)
    tma_load_4d(tile[group], map, group * kSwizzleColumns, row, head, batch, full);
}

struct TileCoordinates {
  int x, h, b;
};

// Sections of heads whose K and V stay in L2; inside one, the longest tiles first     attention.py:18  T.use_order
TILEGEN_DEVICE TileCoordinates tile_coordinates(int tile, int tiles_m, int heads, int H, int section_heads) {
  const int first_head = tile / (section_heads * tiles_m) * section_heads;
  const int width = min(heads - first_head, section_heads);
  const int local = tile - first_head * tiles_m;
  const int head = first_head + local % width;
  return {tiles_m - 1 - local / width, head % H, head / H};
}

}  // namespace

// --------------------------------------------------------------------------------------------- kernel

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    attention(const __grid_constant__ CUtensorMap Q, const __grid_constant__ CUtensorMap K,
              const __grid_constant__ CUtensorMap V, const __grid_constant__ CUtensorMap O, float* LSE, int B, int S_q,
              int S_k, int H, int H_kv, float scale, int section_heads) {
  SharedStorage& shared = shared_storage();

  const int warpgroup = threadIdx.x / kWarpgroup;  // 0 produces, 1 and 2 consume
  const int tiles_m = (S_q + kBlockM - 1) / kBlockM;
  const auto [bx, h, b] = tile_coordinates(blockIdx.x, tiles_m, B * H, H, section_heads);

  // attention.py:28  blocks = T.ceildiv(T.min((bx + 1) * block_M, S_k) if causal else S_k, block_N)
  const int keys = kCausal ? min((bx + 1) * kBlockM, S_k) : S_k;
  const int blocks = (keys + kBlockN - 1) / kBlockN;

  if (threadIdx.x == 0) {
    mbarrier_init(shared.Q_full, 1);
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(shared.K_full[s], 1);
      mbarrier_init(shared.K_empty[s], kConsumers);
      mbarrier_init(shared.V_full[s], 1);
      mbarrier_init(shared.V_empty[s], kConsumers);
    }
    fence_barrier_init();
  }
  __syncthreads();

  // ---------------------------------------------------------------------------------------------- producer
  if (warpgroup == 0) {
    register_release<kProducerRegisters>();
    if (threadIdx.x == 0) {
      // attention.py:26  T.copy(Q[b, bx * block_M, h, 0], Q_shared)
      load_tile(shared.Q_shared, Q, bx * kBlockM, h, b, shared.Q_full);

      const int h_kv = h / (H / H_kv);
      for (int t = 0; t < blocks; ++t) {  // attention.py:29  for j in T.Pipelined(blocks, num_stages=2, reverse=True)
        const int j = blocks - 1 - t;
        // attention.py:30  T.copy(K[b, j * block_N, h // (H // H_kv), 0], K_shared)
        mbarrier_wait(shared.K_empty[stage(t)], phase(t) ^ 1);  // passes at once the first time
        load_tile(shared.K_shared[stage(t)], K, j * kBlockN, h_kv, b, shared.K_full[stage(t)]);

        // attention.py:39  T.copy(V[b, j * block_N, h // (H // H_kv), 0], V_shared)
        mbarrier_wait(shared.V_empty[stage(t)], phase(t) ^ 1);
        load_tile(shared.V_shared[stage(t)], V, j * kBlockN, h_kv, b, shared.V_full[stage(t)]);
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
  const int first_row = bx * kBlockM + 64 * consumer + 16 * warp + lane / 4;  // the thread's other row is 8 below
  const float scale_log2 = scale * kLog2E;
  const float minus_infinity = __int_as_float(0xFF800000);

  // Element i of a fragment is row first_row + 8 (i / 2 % 2), column 8 (i / 4) + 2 (lane % 4) + i % 2
  float S_local[kBlockN / 2];
  u32 P_local[kBlockN / 16][4];  // pairs
  float O_local[kDim / 2] = {};  // attention.py:27  T.fill(O_local, 0), T.fill(m, -T.inf), T.fill(l, 0)
  float m[2] = {minus_infinity, minus_infinity}, l[2] = {0.0f, 0.0f}, alpha[2];

  // Issues attention.py:31  T.gemm(Q_shared, K_shared, S_local, transpose_B=True, clear_accum=True)
  const u64 q = descriptor_sw128(shared.Q_shared[0][64 * consumer], 0, kAtomBytes);
  auto issue_scores = [&](int t) {
    const u64 k = descriptor_sw128(shared.K_shared[stage(t)], 0, kAtomBytes);
    warpgroup_arrive();
#pragma unroll
    for (int kk = 0; kk < kDim / 16; ++kk) {  // in 16-byte units: 16 columns, and every 64 the next group
      const int offset = kk % 4 * 2 + kk / 4 * (kGroupBytes / 16);
      SM90_64x128x16_F32F16F16_SS<Major::K, Major::K>::fma(S_local, q + offset, k + offset, kk > 0);
    }
    warpgroup_commit();
  };

  // Issues attention.py:40  T.gemm(P_local, V_shared, O_local)
  auto issue_output = [&](int t) {
    const u64 v = descriptor_sw128(shared.V_shared[stage(t)], kGroupBytes, kAtomBytes);
    warpgroup_arrive();
#pragma unroll
    for (int kk = 0; kk < kBlockN / 16; ++kk)  // in 16-byte units: 16 rows
      SM90_64x128x16_F32F16F16_RS<Major::MN>::fma(O_local, P_local[kk], v + kk * (2 * kAtomBytes / 16), true);
    warpgroup_commit();
  };

  auto softmax = [&]() {
    // attention.py:33  T.reduce_max(S_local, m_new, dim=1, init=m)
    float m_new[2] = {m[0], m[1]};
#pragma unroll
    for (int i = 0; i < kBlockN / 2; i += 2)
      m_new[i / 2 % 2] = fmaxf(m_new[i / 2 % 2], fmaxf(S_local[i], S_local[i + 1]));
    for (int r = 0; r < 2; ++r) {
      m_new[r] = fmaxf(m_new[r], __shfl_xor_sync(~0u, m_new[r], 1));  // four threads share a row
      m_new[r] = fmaxf(m_new[r], __shfl_xor_sync(~0u, m_new[r], 2));

      // attention.py:34  alpha[i] = T.exp2((m[i] - m_new[i]) * scale * LOG2E)
      alpha[r] = exp2_approx((m[r] - m_new[r]) * scale_log2);
      m[r] = m_new[r];
      l[r] *= alpha[r];
    }
#pragma unroll
    for (int i = 0; i < kBlockN / 2; ++i) {
      // attention.py:35  S_local[i, n] = T.exp2((S_local[i, n] - m_new[i]) * scale * LOG2E)
      S_local[i] = exp2_approx(fmaf(S_local[i], scale_log2, -m[i / 2 % 2] * scale_log2));

      // attention.py:36  l[i] = l[i] * alpha[i] + T.sum(S_local[i, :]), so far over the columns of this thread
      l[i / 2 % 2] += S_local[i];
    }
  };

  // attention.py:38  T.copy(S_local, P_local)
  auto convert = [&]() {
#pragma unroll
    for (int i = 0; i < kBlockN / 4; ++i) {
      const half2 pair = __floats2half2_rn(S_local[2 * i], S_local[2 * i + 1]);
      P_local[i / 4][i % 4] = reinterpret_cast<const u32&>(pair);
    }
  };

  // First block: the one that the diagonal, or the end of the keys, crosses
  mbarrier_wait(shared.Q_full, 0);
  mbarrier_wait(shared.K_full[0], 0);
  issue_scores(0);
  warpgroup_wait<0>();
  if (thread == 0) mbarrier_arrive(shared.K_empty[0]);

  // attention.py:32  T.mask(S_local, -T.inf, lambda i, n: j * block_N + n <= (bx * block_M + i if causal else S_k - 1))
#pragma unroll
  for (int i = 0; i < kBlockN / 2; ++i) {
    const int key = (blocks - 1) * kBlockN + i / 4 * 8 + lane % 4 * 2 + i % 2;
    const int last_key = kCausal ? first_row + i / 2 % 2 * 8 : S_k - 1;
    if (key > last_key) S_local[i] = minus_infinity;
  }
  softmax();
  convert();

  // Main loop: the scores of block t, the output of block t - 1
  for (int t = 1; t < blocks; ++t) {  // attention.py:29
    mbarrier_wait(shared.K_full[stage(t)], phase(t));
    issue_scores(t);
    mbarrier_wait(shared.V_full[stage(t - 1)], phase(t - 1));
    issue_output(t - 1);

    warpgroup_wait<1>();  // the scores are there, the output is still under way
    if (thread == 0) mbarrier_arrive(shared.K_empty[stage(t)]);
    softmax();

    warpgroup_wait<0>();
    if (thread == 0) mbarrier_arrive(shared.V_empty[stage(t - 1)]);
    // attention.py:37  O_local[i, d] *= alpha[i]
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) O_local[i] *= alpha[i / 2 % 2];
    convert();
  }

  // Last block, and epilogue
  mbarrier_wait(shared.V_full[stage(blocks - 1)], phase(blocks - 1));
  issue_output(blocks - 1);
  for (int r = 0; r < 2; ++r) {
    l[r] += __shfl_xor_sync(~0u, l[r], 1);  // attention.py:36, over the four threads of a row
    l[r] += __shfl_xor_sync(~0u, l[r], 2);

    // attention.py:43  LSE[b, h, bx * block_M + i] = m[i] * scale + T.log(l[i])
    const int row = first_row + 8 * r;
    if (lane % 4 == 0 && row < S_q) LSE[(size_t(b) * H + h) * S_q + row] = m[r] * scale + logf(l[r]);
  }
  warpgroup_wait<0>();

  // attention.py:41  O_local[i, d] /= l[i]
  const float reciprocal[2] = {1.0f / l[0], 1.0f / l[1]};
#pragma unroll
  for (int i = 0; i < kDim / 2; ++i) O_local[i] *= reciprocal[i / 2 % 2];

  // attention.py:42  T.copy(O_local, O[b, bx * block_M, h, 0])
  const int row = 16 * warp + lane % 16;
#pragma unroll
  for (int j = 0; j < kDim / 16; ++j) {  // one stmatrix writes 16 rows x 16 columns
    u32 fragment[4];
    for (int p = 0; p < 4; ++p) {
      const half2 pair = __floats2half2_rn(O_local[8 * j + 2 * p], O_local[8 * j + 2 * p + 1]);
      fragment[p] = reinterpret_cast<const u32&>(pair);
    }
    const int chunk = (2 * (j % 4) + lane / 16) ^ (row % 8);  // 8-column chunk under the 128-byte swizzle
    stmatrix_x4(&shared.O_shared[j / 4][64 * consumer + row][8 * chunk], fragment);
  }
  fence_proxy_async();
  named_barrier_sync(1 + consumer, kWarpgroup);
  if (thread == 0) {
    const int first = 64 * consumer;
    for (int group = 0; group < kColumnGroups; ++group)
      tma_store_4d(O, shared.O_shared[group][first], group * kSwizzleColumns, bx * kBlockM + first, h, b);
    tma_store_commit();
    tma_store_wait_read();
  }
}

// --------------------------------------------------------------------------------------------- host

#ifndef __CUDACC_RTC__

constexpr int kSectionBytes = 32 << 20;  // K and V of the heads walked together; leaves a part of the 50 MiB L2 to Q, O

// Describes a row-major fp16 [B, S, H, 128] to the TMA unit as (column, row, head, batch), moved in boxes of box_rows
// rows and 64 columns of one head under the 128-byte swizzle.
static cudaError_t encode_tensor_map(CUtensorMap* map, const void* data, int B, int S, int H, int box_rows) {
  static void* encode = nullptr;
  if (encode == nullptr) {
    cudaDriverEntryPointQueryResult found;
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found);
    if (error != cudaSuccess) return error;
    if (found != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
  }
  const cuuint64_t head_bytes = kDim * sizeof(half);
  const cuuint64_t extents[4] = {kDim, cuuint64_t(S), cuuint64_t(H), cuuint64_t(B)};
  const cuuint64_t strides[3] = {H * head_bytes, head_bytes, S * H * head_bytes};  // of row, head, batch
  const cuuint32_t box[4] = {kSwizzleColumns, cuuint32_t(box_rows), 1, 1};
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
      map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, const_cast<void*>(data), extents, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// Enqueues the attention on the stream. Returns cudaErrorInvalidValue for arguments that break the contract above.
extern "C" cudaError_t attention_launch(const half* Q, const half* K, const half* V, half* O, float* LSE, int B,
                                        int S_q, int S_k, int H, int H_kv, float scale, cudaStream_t stream) {
  if (B <= 0 || S_q <= 0 || S_k <= 0 || H <= 0 || H_kv <= 0 || H % H_kv != 0) return cudaErrorInvalidValue;
  const long long heads = 1ll * B * H, tiles = heads * ((S_q + kBlockM - 1ll) / kBlockM);
  if ((kCausal && S_q != S_k) || !(scale > 0.0f) || LSE == nullptr || tiles > 0x7FFFFFFF) return cudaErrorInvalidValue;

  CUtensorMap map_Q, map_K, map_V, map_O;
  cudaError_t error = encode_tensor_map(&map_Q, Q, B, S_q, H, kBlockM);
  if (error == cudaSuccess) error = encode_tensor_map(&map_K, K, B, S_k, H_kv, kBlockN);
  if (error == cudaSuccess) error = encode_tensor_map(&map_V, V, B, S_k, H_kv, kBlockN);
  if (error == cudaSuccess) error = encode_tensor_map(&map_O, O, B, S_q, H, 64);
  if (error == cudaSuccess)
    error = cudaFuncSetAttribute(attention, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;

  const long long kv_heads = kSectionBytes / (2 * sizeof(half) * kDim * S_k);
  const long long section = (kv_heads > 0 ? kv_heads : 1) * (H / H_kv);
  attention<<<int(tiles), kThreads, kSharedBytes, stream>>>(map_Q, map_K, map_V, map_O, LSE, B, S_q, S_k, H, H_kv,
                                                            scale, int(section < heads ? section : heads));
  return cudaGetLastError();
}

#endif  // __CUDACC_RTC__
