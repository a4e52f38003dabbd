// attention: O, LSE from Q, K, V                                                      CUDA, sm_80
//
// Emitted by tilegen 0.1.0 from examples/attention.py:15 (sha256 87599955). Do not edit; regenerate with
//   tilegen emit examples/attention.py:attention --target sm_80 --dim B=4 --dim S_q=4096 --dim H=32 --dim D=128
//     --dim S_k=4096 --dim H_kv=32 --set causal=True
//
// Launch     grid  32 x 32 x 4
//            block 256 threads = 8 warps
//            dynamic shared memory 163,840 bytes
//
// Arguments  Q, K, V, O  fp16 [4, 4096, 32, 128] row-major, 16-byte aligned
//            LSE         fp32 [4, 32, 4096] row-major
//            A tensor that is written overlaps no other.
//
// Buffer             scope      shape               layout (Shape:Stride, elements)              bytes  bank conflicts
// Q_shared           shared     fp16 [128, 128]     Sw<3,3,3> o (128, (64, 2)):(64, (1, 8192))  32,768  0
// K_shared           shared     fp16 [2][128, 128]  Sw<3,3,3> o (128, (64, 2)):(64, (1, 8192))  65,536  0
// V_shared           shared     fp16 [2][128, 128]  Sw<3,3,3> o (128, (64, 2)):(64, (1, 8192))  65,536  0
// S, O_local         registers  fp32 [128, 128]     ((4, 8, 8), (2, 2, 16)):((2, 128, 2048), (1, 1024, 8)), 64 a thread
// P                  registers  fp16 [128, 128]     ((4, 8, 8), (2, 2, 16)):((2, 128, 2048), (1, 1024, 8)), 64 a thread
// m, m_old, alpha, l registers  fp32 [128]          ((4, 8, 8), 2):((0, 1, 16), 8), 2 a thread
//
// Pipeline   loop j: 2 stages, loads by cp.async 1 iteration ahead; one barrier an iteration
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

constexpr int kSQ = 4096, kH = 32, kD = 128, kSK = 4096, kHKv = 32;  // of the tensors' shapes
constexpr int kBlockM = 128, kBlockN = 128;
constexpr float kScaleLog2 = 0.12751743f, kScale = 0.088388346f;
constexpr int kThreads = 256;
constexpr int kStages = 2;
constexpr int kSwizzleColumns = 64;  // fp16 elements in one 128-byte swizzle row

struct alignas(1024) SharedStorage {
  half Q_shared[kD / kSwizzleColumns][kBlockM][kSwizzleColumns];
  half K_shared[kStages][kD / kSwizzleColumns][kBlockN][kSwizzleColumns];
  half V_shared[kStages][kD / kSwizzleColumns][kBlockN][kSwizzleColumns];
};

constexpr int kSharedBytes = sizeof(SharedStorage);
static_assert(kSharedBytes == 163840, "the shared memory that the header above states");

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

// ex2: PTX ISA 9.7.3.21; relative error 2^-22, exp2(-inf) = 0
TILEGEN_DEVICE float exp2_approx(float x) {
  asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}
// clang-format on

// --------------------------------------------------------------------------------------------- device helpers

TILEGEN_DEVICE float infinity() { return __int_as_float(0x7F800000); }

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
    attention(const half* __restrict__ Q, const half* __restrict__ K, const half* __restrict__ V, half* __restrict__ O,
              float* __restrict__ LSE) {
  SharedStorage& shared = shared_storage();
  const int bx = blockIdx.x;
  const int h = blockIdx.y;
  const int b = blockIdx.z;

  // attention.py:61  keys = T.min((bx + 1) * block_M + (S_k - S_q), S_k) if causal else S_k
  const int keys = min((bx + 1) * kBlockM, kSK);
  const int j_tiles = (keys + kBlockN - 1) / kBlockN;
  const int thread = threadIdx.x;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  // [0][ni][r] is row 16 * warp + lane / 4 + 8 * (r / 2), column 2 * (lane % 4) + 8 * ni + r % 2
  float S[1][16][4];
  float O_local[1][16][4] = {};  // attention.py:58  T.fill(O_local, 0)
  // [0][ni][r] is row 16 * warp + lane / 4 + 8 * (r / 2 % 2), column 2 * (lane % 4) + 16 * ni + r % 2 + 8 * (r / 4)
  alignas(4) half P[1][8][8];
  // [0][r] is element 16 * warp + lane / 4 + 8 * r
  float m[1][2] = {{-infinity(), -infinity()}};  // attention.py:60  T.fill(m, -T.infinity(T.float32))
  float m_old[1][2], alpha[1][2];
  float l[1][2] = {};  // attention.py:59  T.fill(l, 0)

  // attention.py:55  T.copy(Q[b, bx * block_M : (bx + 1) * block_M, h, :], Q_shared)
#pragma unroll 2
  for (int mi = 0; mi < 8; ++mi) {  // fragments leave registers for few loads at once
    const int row = 2 * warp + lane / 16 + 16 * mi;
    const int column = 8 * (lane % 16);
    *reinterpret_cast<uint4*>(
        &shared.Q_shared[column / kSwizzleColumns][row][(column % kSwizzleColumns) ^ (8 * (row % 8))]) =
        *reinterpret_cast<const uint4*>(&Q[((b * kSQ + bx * kBlockM + row) * kH + h) * kD + column]);
  }

  const int K_shared_row = thread / 16;  // this thread's first chunk of K_shared
  const int K_shared_column = 8 * (thread % 16);
  // where its row holds that column
  const int K_shared_place = (K_shared_column % kSwizzleColumns) ^ (8 * (K_shared_row % 8));
  const half* K_shared_source =
      &K[i64(b) * kSK * kHKv * kD + i64(K_shared_row) * kHKv * kD + i64(h) * kD + K_shared_column];
  const int V_shared_row = thread / 16;  // this thread's first chunk of V_shared
  const int V_shared_column = 8 * (thread % 16);
  // where its row holds that column
  const int V_shared_place = (V_shared_column % kSwizzleColumns) ^ (8 * (V_shared_row % 8));
  const half* V_shared_source =
      &V[i64(b) * kSK * kHKv * kD + i64(V_shared_row) * kHKv * kD + i64(h) * kD + V_shared_column];
  // Starts the loads of iteration j into a stage of the ring
  const auto load_tiles = [&](int stage, int j) {
#pragma unroll
    // attention.py:63  T.copy(K[b, j * block_N : (j + 1) * block_N, h // (H // H_kv), :], K_shared)
    for (int i = 0; i < 8; ++i)
      SM80_CP_ASYNC_CACHEGLOBAL::copy(
          &shared.K_shared[stage][K_shared_column / kSwizzleColumns][K_shared_row + 16 * i][K_shared_place],
          &K_shared_source[i64(j * kBlockN) * kHKv * kD + i64(16 * i) * kHKv * kD]);

    // attention.py:83  T.copy(V[b, j * block_N : (j + 1) * block_N, h // (H // H_kv), :], V_shared)
#pragma unroll
    for (int i = 0; i < 8; ++i)
      SM80_CP_ASYNC_CACHEGLOBAL::copy(
          &shared.V_shared[stage][V_shared_column / kSwizzleColumns][V_shared_row + 16 * i][V_shared_place],
          &V_shared_source[i64(j * kBlockN) * kHKv * kD + i64(16 * i) * kHKv * kD]);
  };

  // Prologue: the first stage
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (stage < j_tiles) load_tiles(stage, stage);
    cp_async_commit();
  }

  // Main loop
  // attention.py:62  for j in T.Pipelined(T.ceildiv(keys, block_N), num_stages=num_stages)
#pragma unroll 1
  for (int j = 0; j < j_tiles; ++j) {
    cp_async_wait<0>();
    __syncthreads();
    // The tile has landed, and all threads have left the one before it: its stage takes the next load
    const int j_ahead = j + kStages - 1;
    if (j_ahead < j_tiles) load_tiles(j_ahead % kStages, j_ahead);
    cp_async_commit();

    const int stage = j % kStages;

    // attention.py:64  T.gemm(Q_local, K_shared, S, transpose_B=True, clear_accum=True)
#pragma unroll
    for (int ni = 0; ni < 16; ++ni)
      for (int r = 0; r < 4; ++r) S[0][ni][r] = 0.0f;
    {
      u32 a_fragment[1][4];
      const int a_row = 16 * warp + lane % 16;        // row of A that the lane points ldmatrix at
      const int a_chunk = (lane / 16) ^ (a_row % 8);  // and chunk of 8 columns, swizzled
      u32 b_fragment[16][2];
      const int b_row = lane % 8 + 8 * (lane / 16);      // row of B that the lane points ldmatrix at
      const int b_chunk = (lane / 8 % 2) ^ (b_row % 8);  // and chunk of 8 columns, swizzled
#pragma unroll
      for (int kk = 0; kk < kD / 16; ++kk) {
        ldmatrix_x4(a_fragment[0], &shared.Q_shared[kk / 4][a_row][8 * (a_chunk ^ (2 * (kk % 4)))]);
#pragma unroll
        for (int ni = 0; ni < 16; ni += 2)
          ldmatrix_x4(reinterpret_cast<u32(&)[4]>(b_fragment[ni]),
                      &shared.K_shared[stage][kk / 4][b_row + 8 * ni][8 * (b_chunk ^ (2 * (kk % 4)))]);
#pragma unroll
        for (int ni = 0; ni < 16; ++ni) SM80_16x8x16_F32F16F16F32_TN::fma(S[0][ni], a_fragment[0], b_fragment[ni]);
      }
    }

    // attention.py:67  S[i, n] = T.if_then_else(j * block_N + n < seen, S[i, n], -T.infinity(T.float32))
    if (j * kBlockN + kBlockN - 1 >= bx * kBlockM + 1) {  // where the mask hides something
#pragma unroll
      for (int ni = 0; ni < 16; ++ni)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const int i = 16 * warp + lane / 4 + 8 * (r / 2);
          const int n = 2 * (lane % 4) + 8 * ni + r % 2;
          const int seen = min(bx * kBlockM + i + 1, kSK);
          S[0][ni][r] = j * kBlockN + n < seen ? S[0][ni][r] : -infinity();
        }
    }

    // attention.py:68  T.copy(m, m_old)
    for (int r = 0; r < 2; ++r) m_old[0][r] = m[0][r];

    // attention.py:69  T.reduce_max(S, m, dim=1, clear=False)
#pragma unroll
    for (int ni = 0; ni < 16; ++ni)
      for (int r = 0; r < 4; r += 2) m[0][r / 2] = fmaxf(m[0][r / 2], fmaxf(S[0][ni][r], S[0][ni][r + 1]));
    for (int r = 0; r < 2; ++r) {
      m[0][r] = fmaxf(m[0][r], __shfl_xor_sync(~0u, m[0][r], 1));
      m[0][r] = fmaxf(m[0][r], __shfl_xor_sync(~0u, m[0][r], 2));
    }

    // attention.py:71  m[i] = T.if_then_else((m[i] - m_old[i]) * scale_log2 > 8, m[i], m_old[i])
    for (int r = 0; r < 2; ++r) m[0][r] = (m[0][r] - m_old[0][r]) * kScaleLog2 > 8.0f ? m[0][r] : m_old[0][r];
    // attention.py:73  alpha[i] = T.exp2((m_old[i] - m[i]) * scale_log2)
    for (int r = 0; r < 2; ++r) alpha[0][r] = exp2_approx((m_old[0][r] - m[0][r]) * kScaleLog2);

    // attention.py:75  S[i, n] = T.exp2(S[i, n] * scale_log2 - m[i] * scale_log2)
#pragma unroll
    for (int ni = 0; ni < 16; ++ni)
      for (int r = 0; r < 4; ++r) S[0][ni][r] = exp2_approx(S[0][ni][r] * kScaleLog2 - m[0][r / 2] * kScaleLog2);

    // attention.py:78  l[i] = l[i] * alpha[i] + l_block[i]
    for (int r = 0; r < 2; ++r) l[0][r] *= alpha[0][r];

    // attention.py:76  T.reduce_sum(S, l_block, dim=1)
#pragma unroll
    for (int ni = 0; ni < 16; ++ni)
      for (int r = 0; r < 4; r += 2) l[0][r / 2] += S[0][ni][r] + S[0][ni][r + 1];

    // attention.py:79  T.copy(S, P)
#pragma unroll
    for (int ni = 0; ni < 8; ++ni)
      for (int r = 0; r < 8; r += 2)
        *reinterpret_cast<half2*>(&P[0][ni][r]) =
            __floats2half2_rn(S[0][2 * ni + r / 4][2 * (r / 2 % 2)], S[0][2 * ni + r / 4][2 * (r / 2 % 2) + 1]);

    // attention.py:82  O_local[i, d] *= alpha[i]
    if (__any_sync(~0u, alpha[0][0] != 1.0f || alpha[0][1] != 1.0f)) {  // else no row of the warp asks for it
#pragma unroll
      for (int ni = 0; ni < 16; ++ni)
        for (int r = 0; r < 4; ++r) O_local[0][ni][r] *= alpha[0][r / 2];
    }

    // attention.py:84  T.gemm(P, V_shared, O_local)
    {
      u32 b_fragment[16][2];
      const int b_row = lane % 16;                    // row of B that the lane points ldmatrix at
      const int b_chunk = (lane / 16) ^ (b_row % 8);  // and chunk of 8 columns, swizzled
#pragma unroll
      for (int kk = 0; kk < kBlockN / 16; ++kk) {
#pragma unroll
        for (int ni = 0; ni < 16; ni += 2)
          ldmatrix_x4_trans(reinterpret_cast<u32(&)[4]>(b_fragment[ni]),
                            &shared.V_shared[stage][ni / 8][b_row + 16 * kk][8 * (b_chunk ^ (ni % 8))]);
#pragma unroll
        for (int ni = 0; ni < 16; ++ni)
          SM80_16x8x16_F32F16F16F32_TN::fma(O_local[0][ni], reinterpret_cast<const u32(&)[4]>(P[0][kk][0]),
                                            b_fragment[ni]);
      }
    }
  }

  // attention.py:76: the lanes of a row add up the sums that each has kept
  for (int r = 0; r < 2; ++r) {
    l[0][r] += __shfl_xor_sync(~0u, l[0][r], 1);
    l[0][r] += __shfl_xor_sync(~0u, l[0][r], 2);
  }

  // Epilogue
  // attention.py:86  alpha[i] = 1 / l[i]
  for (int r = 0; r < 2; ++r) alpha[0][r] = 1.0f / l[0][r];

  // attention.py:88  O_local[i, d] *= alpha[i]
#pragma unroll
  for (int ni = 0; ni < 16; ++ni)
    for (int r = 0; r < 4; ++r) O_local[0][ni][r] *= alpha[0][r / 2];

  // attention.py:89  T.copy(O_local, O[b, bx * block_M : (bx + 1) * block_M, h, :])
#pragma unroll
  for (int ni = 0; ni < 4; ++ni)
#pragma unroll
    for (int r = 0; r < 16; r += 8) {
      const int row = 16 * warp + lane / 4 + r;
      const int column = 8 * (lane % 4) + 32 * ni;
      alignas(16) half2 words[4];
      for (int q = 0; q < 4; ++q)
        words[q] = __floats2half2_rn(O_local[0][4 * ni + q][r / 4], O_local[0][4 * ni + q][r / 4 + 1]);
      transpose_quad(reinterpret_cast<u32(&)[4]>(words));
      *reinterpret_cast<uint4*>(&O[((b * kSQ + bx * kBlockM + row) * kH + h) * kD + column]) =
          *reinterpret_cast<const uint4*>(&words[0]);
    }

  // attention.py:91  LSE[b, h, bx * block_M + i] = m[i] * scale + T.log(l[i])
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int i = 16 * warp + lane / 4 + 8 * r;
    if (lane % 4 == 0) LSE[(b * kH + h) * kSQ + bx * kBlockM + i] = m[0][r] * kScale + logf(l[0][r]);
  }
}

// --------------------------------------------------------------------------------------------- host

#ifndef __CUDACC_RTC__

constexpr int kB = 4;         // of the tensors' shapes
constexpr int kTilesBx = 32;  // T.ceildiv(S_q, block_M)

// Enqueues attention on the stream. Returns cudaErrorInvalidValue where the contract above is broken.
extern "C" cudaError_t attention_launch(const half* Q, const half* K, const half* V, half* O, float* LSE,
                                        cudaStream_t stream) {
  if ((u64(Q) | u64(K) | u64(V) | u64(O)) % 16 != 0) return cudaErrorInvalidValue;

  cudaError_t error = cudaFuncSetAttribute(attention, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;

  attention<<<dim3(kTilesBx, kH, kB), kThreads, kSharedBytes, stream>>>(Q, K, V, O, LSE);
  return cudaGetLastError();
}

#endif  // __CUDACC_RTC__
