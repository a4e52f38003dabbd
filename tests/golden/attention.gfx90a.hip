// attention: O, LSE from Q, K, V                                                      HIP, gfx90a
//
// Emitted by tilegen 0.1.0 from examples/attention.py:15 (sha256 87599955). Do not edit; regenerate with
//   tilegen emit examples/attention.py:attention --target gfx90a --dim B=4 --dim S_q=4096 --dim H=32 --dim D=128
//     --dim S_k=4096 --dim H_kv=32 --set causal=True
//
// Launch     grid  32 x 32 x 4
//            block 256 threads = 4 waves
//            static LDS 65,536 bytes
//
// Arguments  Q, K, V, O  fp16 [4, 4096, 32, 128] row-major, 16-byte aligned
//            LSE         fp32 [4, 32, 4096] row-major
//            A tensor that is written overlaps no other.
//
// Buffer             scope      shape              layout (Shape:Stride, elements)                bytes  bank conflicts
// Q_shared           LDS        fp16 [128, 128]    Sw<3,3,4> o (128, 128):(128, 1)               32,768  0
// K_shared           LDS        fp16 [64, 128]     Sw<3,3,4> o Sw<3,3,5> o (64, 128):(128, 1)    16,384  0
// V_shared           LDS        fp16 [64, 128]     Sw<3,3,3> o Sw<3,3,4> o Sw<3,3,6> o (64,      16,384  0
//                                                    128):(1, 64)
// O_staging          LDS        fp16 [4, 32, 128]  Sw<3,3,4> o (4, 32, 128):(4096, 128, 1)       32,768  0
//                    lies over K_shared and V_shared
// S                  registers  fp32 [128, 64]     ((32, 2, 4), (8, 4)):((64, 8, 2048), (1, 16)), 32 a thread
// P                  registers  fp16 [128, 64]     ((32, 2, 4), (8, 4)):((64, 8, 2048), (1, 16)), 32 a thread
// O_local            registers  fp32 [128, 128]    ((32, 2, 4), (8, 8)):((128, 8, 4096), (1, 16)), 64 a thread
// m, m_old, alpha, l registers  fp32 [128]         ((32, 2, 4), 1):((1, 0, 32), 0), 1 a thread
//
// Pipeline   loop j: tile j + 2 global -> registers, tile j + 1 registers -> LDS, tile j LDS -> operands; stages that
//            fit: 1 in LDS, 1 in registers; two barriers a tile
//            math by mfma_f32_32x32x8_f16

#ifndef __HIPCC_RTC__
#include <hip/hip_runtime.h>
#endif

namespace {

#define TILEGEN_DEVICE __device__ __forceinline__
using u32 = unsigned int;
using u64 = unsigned long long;
using fp16 = _Float16;
using u32x4 = u32 __attribute__((ext_vector_type(4)));
using fp16x4 = fp16 __attribute__((ext_vector_type(4)));
using fp16x8 = fp16 __attribute__((ext_vector_type(8)));
using fp32x16 = float __attribute__((ext_vector_type(16)));

// --------------------------------------------------------------------------------------------- configuration

constexpr int kSQ = 4096, kH = 32, kD = 128, kSK = 4096, kHKv = 32;  // of the tensors' shapes
constexpr int kBlockM = 128, kBlockN = 64;
constexpr float kScaleLog2 = 0.12751743f, kScale = 0.088388346f;
constexpr int kThreads = 256;
constexpr int kWaves = 4;

struct alignas(16) SharedStorage {
  union {
    struct {
      fp16 K_shared[kBlockN][kD];
      fp16 V_shared[kD][kBlockN];  // transposed
    };
    fp16 O_staging[kWaves][32][128];
  };
  fp16 Q_shared[kBlockM][kD];
};

static_assert(sizeof(SharedStorage) == 65536, "the shared memory that the header above states");

// --------------------------------------------------------------------------------------------- device primitives
// clang-format off: builtins stay one a line

TILEGEN_DEVICE SharedStorage& shared_storage() {  // the block's LDS
  __shared__ SharedStorage storage;
  return storage;
}

// Buffer instructions: CDNA ISA, "Vector Memory Operations". Offsets are bytes; past the end of the resource, loads
// return 0 and stores are dropped.
using BufferResource = __amdgpu_buffer_rsrc_t;

TILEGEN_DEVICE BufferResource make_buffer_resource(const void* origin, u32 bytes) {
  constexpr int kRawBuffer = 0x00027000;  // word 3: untyped, 32-bit data format
  return __builtin_amdgcn_make_buffer_rsrc(const_cast<void*>(origin), 0, bytes, kRawBuffer);
}

template <class Value>
TILEGEN_DEVICE Value buffer_load_b128(BufferResource resource, u32 offset) {
  return __builtin_bit_cast(Value, __builtin_amdgcn_raw_buffer_load_b128(resource, offset, 0, 0));
}

template <class Value>
TILEGEN_DEVICE void buffer_store_b128(Value value, BufferResource resource, u32 offset) {
  __builtin_amdgcn_raw_buffer_store_b128(__builtin_bit_cast(u32x4, value), resource, offset, 0, 0);
}

// The halves of a lane's 8 neighbours along k: one instruction multiplies the low ones, another the high ones
TILEGEN_DEVICE fp16x4 low_half(fp16x8 value) { return value.lo; }
TILEGEN_DEVICE fp16x4 high_half(fp16x8 value) { return value.hi; }

// v_mfma_f32_32x32x8_f16: CDNA ISA, "Matrix Arithmetic Instructions". C[32, 32] += A[32, 8] B[8, 32]. Lane l holds k
// 4 (l / 32) + 0 ... 3 of row l % 32 of A and of column l % 32 of B, and in register r row
// 8 (r / 4) + 4 (l / 32) + r % 4 of that column of C. Gemms pass their B as a and their A as b: C comes out
// transposed, and a lane holds neighbours along a row of it.
TILEGEN_DEVICE void mfma_f32_32x32x8_f16(fp16x4 a, fp16x4 b, float (&c)[16]) {
  fp32x16 sum;
  __builtin_memcpy(&sum, c, sizeof(sum));
  sum = __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, sum, 0, 0, 0);
  __builtin_memcpy(c, &sum, sizeof(sum));
}

// Keeps a block of C in accumulation registers up to here. Else the compiler moves all blocks to vector registers where
// the loop ends, long before they are used.
TILEGEN_DEVICE void hold_accumulators(float (&c)[16]) {
  fp32x16 block;
  __builtin_memcpy(&block, c, sizeof(block));
  asm volatile("" : "+a"(block));
  __builtin_memcpy(c, &block, sizeof(block));
}

// s_waitcnt lgkmcnt(0), s_barrier: CDNA ISA, "Program Flow Control". It waits for LDS only: global loads stay in
// flight. Nothing is scheduled across it: MFMAs, where there are any, stay in the phase whose memory traffic they hide.
TILEGEN_DEVICE void block_sync_lds() {
  __builtin_amdgcn_sched_barrier(0);
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  __builtin_amdgcn_sched_barrier(0);
}

// What the lanes of a wave wrote to LDS, they may read after it: a wave's LDS instructions are executed in order, so
// that only the compiler must keep that order. CDNA ISA, "Data Share Operations".
TILEGEN_DEVICE void wave_sync_lds() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

// v_exp_f32: CDNA ISA, "Vector ALU Operations"; relative error 2^-22, exp2(-inf) = 0
TILEGEN_DEVICE float exp2_approx(float x) { return __builtin_amdgcn_exp2f(x); }
// clang-format on

// --------------------------------------------------------------------------------------------- device helpers

TILEGEN_DEVICE float infinity() { return __int_as_float(0x7F800000); }

constexpr u32 kOutOfRange = 0x80000000;  // a byte offset past the end of every window

template <class Element>
struct TileWindow {  // on a matrix whose rows are contiguous, from an origin to the end of the matrix
  const Element* origin;
  int rows, columns;  // left from the origin on, 0 or less past the end
  int pitch;          // elements from row to row

  // Covers kRows rows or those that are left: what lies below fails the range check.
  template <int kRows>
  TILEGEN_DEVICE BufferResource resource() const {
    const int elements = (min(rows, kRows) - 1) * pitch + columns;
    return make_buffer_resource(origin, u32(sizeof(Element)) * max(elements, 0));
  }

  // What lies to the right would be the next row: it gets an offset that fails the range check.
  TILEGEN_DEVICE u32 offset(int row, int column) const {
    const u32 outside = column < columns ? 0 : kOutOfRange;
    return outside | u32(sizeof(Element)) * (row * pitch + column);
  }
};

}  // namespace

// --------------------------------------------------------------------------------------------- kernel

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    attention(const fp16* __restrict__ Q, const fp16* __restrict__ K, const fp16* __restrict__ V, fp16* __restrict__ O,
              float* __restrict__ LSE) {
  SharedStorage& shared = shared_storage();
  const int bx = blockIdx.x;
  const int h = blockIdx.y;
  const int b = blockIdx.z;

  // attention.py:61  keys = T.min((bx + 1) * block_M + (S_k - S_q), S_k) if causal else S_k
  const int keys = min((bx + 1) * kBlockM, kSK);
  const int j_tiles = (keys + kBlockN - 1) / kBlockN;
  const int wave = threadIdx.x / 64;
  const int lane = threadIdx.x % 64;
  // [0][ni][r] is row 32 * wave + lane % 32, column 8 * (lane / 32) + 32 * ni + r % 8 + 16 * (r / 8)
  float S[1][2][16];
  float O_local[1][4][16] = {};  // attention.py:58  T.fill(O_local, 0)
  alignas(16) fp16 P[1][4][8];   // [0][ni][r] is row 32 * wave + lane % 32, column 8 * (lane / 32) + 16 * ni + r
  // [0] is element 32 * wave + lane % 32
  float m[1] = {-infinity()};  // attention.py:60  T.fill(m, -T.infinity(T.float32))
  float m_old[1], alpha[1];
  float l[1] = {};  // attention.py:59  T.fill(l, 0)

  // attention.py:55  T.copy(Q[b, bx * block_M : (bx + 1) * block_M, h, :], Q_shared)
  {
    fp16x8 Q_loaded[8];
    const TileWindow<fp16> window = {&Q[((b * kSQ + bx * kBlockM) * kH + h) * kD], kSQ - bx * kBlockM, kD, kH * kD};
    const BufferResource window_resource = window.resource<kBlockM>();
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = 4 * wave + lane / 16 + 16 * i;
      const int column = 8 * (lane % 16);
      Q_loaded[i] = buffer_load_b128<fp16x8>(window_resource, window.offset(row, column));
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = 4 * wave + lane / 16 + 16 * i;
      *reinterpret_cast<fp16x8*>(&shared.Q_shared[row][8 * ((lane % 16) ^ (row % 8))]) = Q_loaded[i];
    }
  }

  // attention.py:63  T.copy(K[b, j * block_N : (j + 1) * block_N, h // (H // H_kv), :], K_shared)
  fp16x8 K_next[4];
  const auto load_K = [&](int j) {
    const TileWindow<fp16> window = {&K[((b * kSK + j * kBlockN) * kHKv + h) * kD], kSK - j * kBlockN, kD, kHKv * kD};
    const BufferResource window_resource = window.resource<kBlockN>();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = 4 * wave + lane / 16 + 16 * i;
      const int column = 8 * (lane % 16);
      K_next[i] = buffer_load_b128<fp16x8>(window_resource, window.offset(row, column));
    }
  };
  const auto store_K = [&]() {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = 4 * wave + lane / 16 + 16 * i;
      *reinterpret_cast<fp16x8*>(&shared.K_shared[row][8 * ((lane % 16) ^ (row % 8) ^ (row / 2 % 8))]) = K_next[i];
    }
  };

  // attention.py:83  T.copy(V[b, j * block_N : (j + 1) * block_N, h // (H // H_kv), :], V_shared)
  fp16x8 V_next[4];
  const auto load_V = [&](int j) {
    const TileWindow<fp16> window = {&V[((b * kSK + j * kBlockN) * kHKv + h) * kD], kSK - j * kBlockN, kD, kHKv * kD};
    const BufferResource window_resource = window.resource<kBlockN>();
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int row = 16 * wave + 8 * (lane / 32) + 4 * (lane / 8 % 2) + r;
      const int column = 64 * (lane / 16 % 2) + 8 * (lane % 8);
      V_next[r] = buffer_load_b128<fp16x8>(window_resource, window.offset(row, column));
    }
  };
  const auto store_V = [&]() {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const int row = 64 * (lane / 16 % 2) + 8 * (lane % 8) + n;
      const int first = 16 * wave + 8 * (lane / 32) + 4 * (lane / 8 % 2);  // of 4 elements of the row
      const fp16x4 elements = {V_next[0][n], V_next[1][n], V_next[2][n], V_next[3][n]};
      *reinterpret_cast<fp16x4*>(
          &shared.V_shared[row][8 * ((first / 8) ^ (row % 8) ^ (row / 2 % 8) ^ (row / 8 % 8)) + first % 8]) = elements;
    }
  };

  // Prologue: the first tile to LDS, the second to registers. Loads run on past the last tile: what is not there reads
  // as 0 through the range check, and nothing multiplies it.
  load_K(0);
  load_V(0);
  store_K();
  store_V();
  load_K(1);
  load_V(1);
  block_sync_lds();  // the first tile is in LDS

  // Main loop
  // attention.py:62  for j in T.Pipelined(T.ceildiv(keys, block_N), num_stages=num_stages)
  for (int j = 0; j < j_tiles; ++j) {
    // attention.py:64  T.gemm(Q_local, K_shared, S, transpose_B=True, clear_accum=True)
#pragma unroll
    for (int ni = 0; ni < 2; ++ni)
#pragma unroll
      for (int r = 0; r < 16; ++r) S[0][ni][r] = 0.0f;
#pragma unroll
    for (int step = 0; step < 8; ++step) {  // 16 k each
      fp16x8 A_operand[1];
      {
        const int row = 32 * wave + lane % 32;
        A_operand[0] =
            *reinterpret_cast<const fp16x8*>(&shared.Q_shared[row][8 * ((lane / 32 + 2 * step) ^ (row % 8))]);
      }
      fp16x8 B_operand[2];
#pragma unroll
      for (int ni = 0; ni < 2; ++ni) {
        // so ordered that a lane gets neighbours along a row of C
        const int row = 16 * (lane / 16 % 2) + 4 * (lane / 8 % 2) + 8 * (lane / 4 % 2) + lane % 4 + 32 * ni;
        B_operand[ni] = *reinterpret_cast<const fp16x8*>(
            &shared.K_shared[row][8 * ((lane / 32 + 2 * step) ^ (row % 8) ^ (row / 2 % 8))]);
      }
#pragma unroll
      for (int ni = 0; ni < 2; ++ni) mfma_f32_32x32x8_f16(low_half(B_operand[ni]), low_half(A_operand[0]), S[0][ni]);
#pragma unroll
      for (int ni = 0; ni < 2; ++ni) mfma_f32_32x32x8_f16(high_half(B_operand[ni]), high_half(A_operand[0]), S[0][ni]);
    }

    // attention.py:67  S[i, n] = T.if_then_else(j * block_N + n < seen, S[i, n], -T.infinity(T.float32))
    if (j * kBlockN + kBlockN - 1 >= bx * kBlockM + 1) {  // where the mask hides something
#pragma unroll
      for (int ni = 0; ni < 2; ++ni)
#pragma unroll
        for (int r = 0; r < 16; ++r) {
          const int i = 32 * wave + lane % 32;
          const int n = 8 * (lane / 32) + 32 * ni + r % 8 + 16 * (r / 8);
          const int seen = min(bx * kBlockM + i + 1, kSK);
          S[0][ni][r] = j * kBlockN + n < seen ? S[0][ni][r] : -infinity();
        }
    }

    // attention.py:68  T.copy(m, m_old)
    m_old[0] = m[0];

    // attention.py:69  T.reduce_max(S, m, dim=1, clear=False)
#pragma unroll
    for (int ni = 0; ni < 2; ++ni)
#pragma unroll
      for (int r = 0; r < 16; r += 4)
        m[0] = fmaxf(m[0], fmaxf(fmaxf(S[0][ni][r], S[0][ni][r + 1]), fmaxf(S[0][ni][r + 2], S[0][ni][r + 3])));
    m[0] = fmaxf(m[0], __shfl_xor(m[0], 32));

    // attention.py:71  m[i] = T.if_then_else((m[i] - m_old[i]) * scale_log2 > 8, m[i], m_old[i])
    m[0] = (m[0] - m_old[0]) * kScaleLog2 > 8.0f ? m[0] : m_old[0];
    // attention.py:73  alpha[i] = T.exp2((m_old[i] - m[i]) * scale_log2)
    alpha[0] = exp2_approx((m_old[0] - m[0]) * kScaleLog2);

    // attention.py:75  S[i, n] = T.exp2(S[i, n] * scale_log2 - m[i] * scale_log2)
#pragma unroll
    for (int ni = 0; ni < 2; ++ni)
#pragma unroll
      for (int r = 0; r < 16; ++r) S[0][ni][r] = exp2_approx(S[0][ni][r] * kScaleLog2 - m[0] * kScaleLog2);

    // attention.py:78  l[i] = l[i] * alpha[i] + l_block[i]
    l[0] *= alpha[0];

    // attention.py:76  T.reduce_sum(S, l_block, dim=1)
#pragma unroll
    for (int ni = 0; ni < 2; ++ni)
#pragma unroll
      for (int r = 0; r < 16; r += 4) l[0] += S[0][ni][r] + S[0][ni][r + 1] + (S[0][ni][r + 2] + S[0][ni][r + 3]);

    // attention.py:79  T.copy(S, P)
#pragma unroll
    for (int ni = 0; ni < 4; ++ni)
#pragma unroll
      for (int r = 0; r < 8; ++r) P[0][ni][r] = static_cast<fp16>(S[0][ni / 2][8 * (ni % 2) + r]);

    // attention.py:82  O_local[i, d] *= alpha[i]
    if (__any(alpha[0] != 1.0f)) {  // else no row of the wave asks for it
#pragma unroll
      for (int ni = 0; ni < 4; ++ni)
#pragma unroll
        for (int r = 0; r < 16; ++r) O_local[0][ni][r] *= alpha[0];
    }

    // attention.py:84  T.gemm(P, V_shared, O_local)
#pragma unroll
    for (int step = 0; step < 4; ++step) {  // 16 k each
      fp16x8 B_operand[4];
#pragma unroll
      for (int ni = 0; ni < 4; ++ni) {
        // so ordered that a lane gets neighbours along a row of C
        const int row = 16 * (lane / 16 % 2) + 4 * (lane / 8 % 2) + 8 * (lane / 4 % 2) + lane % 4 + 32 * ni;
        B_operand[ni] = *reinterpret_cast<const fp16x8*>(
            &shared.V_shared[row][8 * ((lane / 32 + 2 * step) ^ (row % 8) ^ (row / 2 % 8) ^ (row / 8 % 8))]);
      }
#pragma unroll
      for (int ni = 0; ni < 4; ++ni)
        mfma_f32_32x32x8_f16(low_half(B_operand[ni]), low_half(*reinterpret_cast<const fp16x8*>(&P[0][step][0])),
                             O_local[0][ni]);
#pragma unroll
      for (int ni = 0; ni < 4; ++ni)
        mfma_f32_32x32x8_f16(high_half(B_operand[ni]), high_half(*reinterpret_cast<const fp16x8*>(&P[0][step][0])),
                             O_local[0][ni]);
    }

    block_sync_lds();  // every wave has read tile j

    // Tile j + 1 to LDS, tile j + 2 to registers
    store_K();
    store_V();
    load_K(j + 2);
    load_V(j + 2);
    block_sync_lds();  // tile j + 1 is in LDS
  }
#pragma unroll
  for (int ni = 0; ni < 4; ++ni) hold_accumulators(O_local[0][ni]);

  // attention.py:76: the lanes of a row add up the sums that each has kept
  l[0] += __shfl_xor(l[0], 32);

  // Epilogue
  // attention.py:86  alpha[i] = 1 / l[i]
  alpha[0] = 1.0f / l[0];

  // attention.py:88  O_local[i, d] *= alpha[i]
#pragma unroll
  for (int ni = 0; ni < 4; ++ni)
#pragma unroll
    for (int r = 0; r < 16; ++r) O_local[0][ni][r] *= alpha[0];

  // attention.py:89  T.copy(O_local, O[b, bx * block_M : (bx + 1) * block_M, h, :])
  const TileWindow<fp16> O_window = {&O[((b * kSQ + bx * kBlockM) * kH + h) * kD], kSQ - bx * kBlockM, kD, kH * kD};
  const BufferResource O_window_resource = O_window.resource<kBlockM>();
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const int row = lane % 32;
    fp16x8 columns;
#pragma unroll
    for (int e = 0; e < 8; ++e) columns[e] = static_cast<fp16>(O_local[0][(8 * v + e) / 16][(8 * v + e) % 16]);
    *reinterpret_cast<fp16x8*>(&shared.O_staging[wave][row][8 * ((lane / 32 + 2 * v) ^ (row % 8))]) = columns;
  }
  wave_sync_lds();
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = lane / 16 + 4 * i;
    const fp16x8 columns =
        *reinterpret_cast<const fp16x8*>(&shared.O_staging[wave][row][8 * ((lane % 16) ^ (row % 8))]);
    buffer_store_b128(columns, O_window_resource, O_window.offset(32 * wave + row, 8 * (lane % 16)));
  }

  // attention.py:91  LSE[b, h, bx * block_M + i] = m[i] * scale + T.log(l[i])
  {
    const int i = 32 * wave + lane % 32;
    if (lane < 32) LSE[(b * kH + h) * kSQ + bx * kBlockM + i] = m[0] * kScale + logf(l[0]);
  }
}

// --------------------------------------------------------------------------------------------- host

#ifndef __HIPCC_RTC__

constexpr int kB = 4;         // of the tensors' shapes
constexpr int kTilesBx = 32;  // T.ceildiv(S_q, block_M)

// Enqueues attention on the stream. Returns hipErrorInvalidValue where the contract above is broken.
extern "C" hipError_t attention_launch(const _Float16* Q, const _Float16* K, const _Float16* V, _Float16* O, float* LSE,
                                       hipStream_t stream) {
  if ((u64(Q) | u64(K) | u64(V) | u64(O)) % 16 != 0) return hipErrorInvalidValue;

  attention<<<dim3(kTilesBx, kH, kB), kThreads, 0, stream>>>(Q, K, V, O, LSE);
  return hipGetLastError();
}

#endif  // __HIPCC_RTC__
