// matmul_relu: C = max(A @ B, 0)                                                      HIP, gfx90a
//
// Emitted by tilegen 0.1.0 from examples/matmul.py:13 (sha256 4999f24c). Do not edit; regenerate with
//   tilegen emit examples/matmul.py:matmul_relu --target gfx90a
//
// Launch     grid  ceil(N / 128) x ceil(M / 128)
//            block 128 threads = 2 waves
//            static LDS 32,768 bytes
//
// Arguments  A  fp16 [M, K] row-major, 16-byte aligned, K % 8 == 0
//            B  fp16 [K, N] row-major, 16-byte aligned, N % 8 == 0
//            C  fp16 [M, N] row-major, 16-byte aligned, N % 8 == 0
//            Requires 128 rows of A span less than 2 GiB.
//            Requires 32 rows of B span less than 2 GiB.
//            Requires 128 rows of C span less than 2 GiB.
//            Requires M <= 2,147,418,112.
//            A tensor that is written overlaps no other.
//
// Buffer     scope      shape              layout (Shape:Stride, elements)             bytes  bank conflicts
// A_shared   LDS        fp16 [2][128, 32]  Sw<2,3,3> o (128, 32):(32, 1)              16,384  0
// B_shared   LDS        fp16 [2][32, 128]  Sw<3,3,5> o Sw<2,3,2> o (32, 128):(1, 32)  16,384  0
// C_staging  LDS        fp16 [2, 32, 128]  Sw<3,3,4> o (2, 32, 128):(4096, 128, 1)    16,384  0
//            lies over A_shared and B_shared
// C_local    registers  fp32 [128, 128]    ((32, 2, 2), (8, 8, 2)):((128, 8, 8192), (1, 16, 4096)), 128 a thread
//
// Pipeline   loop k: tile k + 2 global -> registers, tile k + 1 registers -> LDS, tile k LDS -> operands; num_stages=3:
//            2 in LDS, 1 in registers; one barrier a tile
//            math by mfma_f32_32x32x8_f16

#ifndef __HIPCC_RTC__
#include <hip/hip_runtime.h>
#endif

namespace {

#define TILEGEN_DEVICE __device__ __forceinline__
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;
using fp16 = _Float16;
using u32x4 = u32 __attribute__((ext_vector_type(4)));
using fp16x4 = fp16 __attribute__((ext_vector_type(4)));
using fp16x8 = fp16 __attribute__((ext_vector_type(8)));
using fp32x16 = float __attribute__((ext_vector_type(16)));

// --------------------------------------------------------------------------------------------- configuration

constexpr int kBlockM = 128, kBlockN = 128, kBlockK = 32;
constexpr int kThreads = 128;
constexpr int kStages = 2;  // tiles in LDS: one is read while the next is filled
constexpr int kWaves = 2;

union alignas(16) SharedStorage {
  struct {
    fp16 A_shared[kStages][kBlockM][kBlockK];
    fp16 B_shared[kStages][kBlockN][kBlockK];  // transposed
  };
  fp16 C_staging[kWaves][32][128];
};

static_assert(sizeof(SharedStorage) == 32768, "the shared memory that the header above states");

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

// Scheduling hint, kTurns times: so many LDS reads, LDS writes and global loads, then kMfmas MFMAs. The masks are those
// of llvm.amdgcn.sched.group.barrier in LLVM's AMDGPU usage guide.
template <int kTurns, int kReads, int kWrites, int kLoads, int kMfmas>
TILEGEN_DEVICE void schedule() {
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    if constexpr (kReads > 0) __builtin_amdgcn_sched_group_barrier(0x100, kReads, 0);
    if constexpr (kWrites > 0) __builtin_amdgcn_sched_group_barrier(0x200, kWrites, 0);
    if constexpr (kLoads > 0) __builtin_amdgcn_sched_group_barrier(0x020, kLoads, 0);
    __builtin_amdgcn_sched_group_barrier(0x008, kMfmas, 0);
  }
}
// clang-format on

// --------------------------------------------------------------------------------------------- device helpers

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
    matmul_relu(const fp16* __restrict__ A, const fp16* __restrict__ B, fp16* __restrict__ C, int M, int N, int K) {
  SharedStorage& shared = shared_storage();
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int k_tiles = (K + kBlockK - 1) / kBlockK;
  const int wave = threadIdx.x / 64;
  const int lane = threadIdx.x % 64;
  // [mi][ni][r] is row 64 * wave + lane % 32 + 32 * mi, column 8 * (lane / 32) + 32 * ni + r % 8 + 16 * (r / 8)
  float C_local[2][4][16] = {};  // matmul.py:24  T.clear(C_local)

  // matmul.py:26  T.copy(A[by * block_M, k * block_K], A_shared)
  fp16x8 A_next[4];
  const auto load_A = [&](int k) {
    const TileWindow<fp16> window = {&A[i64(by * kBlockM) * K + k * kBlockK], M - by * kBlockM, K - k * kBlockK, K};
    const BufferResource window_resource = window.resource<kBlockM>();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = 16 * wave + lane / 4 + 32 * i;
      const int column = 8 * (lane % 4);
      A_next[i] = buffer_load_b128<fp16x8>(window_resource, window.offset(row, column));
    }
  };
  const auto store_A = [&](int stage) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = 16 * wave + lane / 4 + 32 * i;
      *reinterpret_cast<fp16x8*>(&shared.A_shared[stage][row][8 * ((lane % 4) ^ (row / 2 % 4))]) = A_next[i];
    }
  };

  // matmul.py:27  T.copy(B[k * block_K, bx * block_N], B_shared)
  fp16x8 B_next[4];
  const auto load_B = [&](int k) {
    const TileWindow<fp16> window = {&B[i64(k * kBlockK) * N + bx * kBlockN], K - k * kBlockK, N - bx * kBlockN, N};
    const BufferResource window_resource = window.resource<kBlockK>();
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int row = 16 * wave + 8 * (lane / 32) + 4 * (lane / 8 % 2) + r;
      const int column = 64 * (lane / 16 % 2) + 8 * (lane % 8);
      B_next[r] = buffer_load_b128<fp16x8>(window_resource, window.offset(row, column));
    }
  };
  const auto store_B = [&](int stage) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const int row = 64 * (lane / 16 % 2) + 8 * (lane % 8) + n;
      const int first = 16 * wave + 8 * (lane / 32) + 4 * (lane / 8 % 2);  // of 4 elements of the row
      const fp16x4 elements = {B_next[0][n], B_next[1][n], B_next[2][n], B_next[3][n]};
      *reinterpret_cast<fp16x4*>(
          &shared.B_shared[stage][row ^ (row / 32 % 2)][8 * ((first / 8) ^ (row % 4) ^ (row / 8 % 4)) + first % 8]) =
          elements;
    }
  };

  // matmul.py:28  T.gemm(A_shared, B_shared, C_local)
  fp16x8 A_operand[2][2];
  fp16x8 B_operand[2][4];
  const auto read_operands = [&](int slot, int stage, int step) {
#pragma unroll
    for (int mi = 0; mi < 2; ++mi) {
      const int row = 64 * wave + lane % 32 + 32 * mi;
      A_operand[slot][mi] =
          *reinterpret_cast<const fp16x8*>(&shared.A_shared[stage][row][8 * ((lane / 32 + 2 * step) ^ (row / 2 % 4))]);
    }
#pragma unroll
    for (int ni = 0; ni < 4; ++ni) {
      // so ordered that a lane gets neighbours along a row of C
      const int row = 16 * (lane / 16 % 2) + 4 * (lane / 8 % 2) + 8 * (lane / 4 % 2) + lane % 4 + 32 * ni;
      B_operand[slot][ni] = *reinterpret_cast<const fp16x8*>(
          &shared.B_shared[stage][row ^ (row / 32 % 2)][8 * ((lane / 32 + 2 * step) ^ (row % 4) ^ (row / 8 % 4))]);
    }
  };
  const auto multiply = [&](int slot) {
#pragma unroll
    for (int mi = 0; mi < 2; ++mi)
#pragma unroll
      for (int ni = 0; ni < 4; ++ni)
        mfma_f32_32x32x8_f16(low_half(B_operand[slot][ni]), low_half(A_operand[slot][mi]), C_local[mi][ni]);
#pragma unroll
    for (int mi = 0; mi < 2; ++mi)
#pragma unroll
      for (int ni = 0; ni < 4; ++ni)
        mfma_f32_32x32x8_f16(high_half(B_operand[slot][ni]), high_half(A_operand[slot][mi]), C_local[mi][ni]);
  };

  // Prologue: the first tile to LDS, the second to registers. Loads run on past the last tile: what is not there reads
  // as 0 through the range check, and nothing multiplies it.
  load_A(0);
  load_B(0);
  store_A(0);
  store_B(0);
  load_A(1);
  load_B(1);
  block_sync_lds();  // the first tile is in LDS

  // Main loop
  read_operands(0, 0, 0);

  // matmul.py:25  for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages)
  for (int k = 0; k < k_tiles; ++k) {
    const int stage = k % kStages;
    // Tile k + 1 to LDS, tile k + 2 to registers, under the steps of tile k
    store_A(1 - stage);
    store_B(1 - stage);
    load_A(k + 2);
    load_B(k + 2);
    read_operands(1, stage, 1);
    multiply(0);
    schedule<12, 1, 1, 1, 1>();  // 6 LDS reads, 12 LDS writes and 8 loads among 16 MFMAs
    block_sync_lds();            // tile k has been read, tile k + 1 is in LDS

    read_operands(0, 1 - stage, 0);
    multiply(1);
    schedule<6, 1, 0, 0, 2>();  // 6 LDS reads among 16 MFMAs
  }
#pragma unroll
  for (int mi = 0; mi < 2; ++mi)
#pragma unroll
    for (int ni = 0; ni < 4; ++ni) hold_accumulators(C_local[mi][ni]);

  // Epilogue
  // matmul.py:30  C_local[i, j] = T.max(C_local[i, j], 0)
#pragma unroll
  for (int mi = 0; mi < 2; ++mi)
#pragma unroll
    for (int ni = 0; ni < 4; ++ni)
#pragma unroll
      for (int r = 0; r < 16; ++r) C_local[mi][ni][r] = fmaxf(C_local[mi][ni][r], 0.0f);

  // matmul.py:31  T.copy(C_local, C[by * block_M, bx * block_N])
  block_sync_lds();  // C_staging lies over A_shared and B_shared
  const TileWindow<fp16> C_window = {&C[i64(by * kBlockM) * N + bx * kBlockN], M - by * kBlockM, N - bx * kBlockN, N};
  const BufferResource C_window_resource = C_window.resource<kBlockM>();
#pragma unroll
  for (int mi = 0; mi < 2; ++mi) {
#pragma unroll
    for (int v = 0; v < 8; ++v) {
      const int row = lane % 32;
      fp16x8 columns;
#pragma unroll
      for (int e = 0; e < 8; ++e) columns[e] = static_cast<fp16>(C_local[mi][(8 * v + e) / 16][(8 * v + e) % 16]);
      *reinterpret_cast<fp16x8*>(&shared.C_staging[wave][row][8 * ((lane / 32 + 2 * v) ^ (row % 8))]) = columns;
    }
    wave_sync_lds();
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = lane / 16 + 4 * i;
      const fp16x8 columns =
          *reinterpret_cast<const fp16x8*>(&shared.C_staging[wave][row][8 * ((lane % 16) ^ (row % 8))]);
      buffer_store_b128(columns, C_window_resource, C_window.offset(64 * wave + 32 * mi + row, 8 * (lane % 16)));
    }
    wave_sync_lds();  // the strip has been read
  }
}

// --------------------------------------------------------------------------------------------- host

#ifndef __HIPCC_RTC__

// Enqueues C = max(A @ B, 0) on the stream. Returns hipErrorInvalidValue where the contract above is broken.
extern "C" hipError_t matmul_relu_launch(const _Float16* A, const _Float16* B, _Float16* C, int M, int N, int K,
                                         hipStream_t stream) {
  if (M < 0 || N < 0 || K < 0 || N % 8 != 0 || K % 8 != 0) return hipErrorInvalidValue;
  if (K > 8388607 || N > 8388607) return hipErrorInvalidValue;  // a window of 2 GiB or more
  if (M > 0x7FFF0000) return hipErrorInvalidValue;              // the last tile may leave int
  if ((u64(A) | u64(B) | u64(C)) % 16 != 0) return hipErrorInvalidValue;

  const u64 blocks_x = (u64(N) + kBlockN - 1) / kBlockN;
  const u64 blocks_y = (u64(M) + kBlockM - 1) / kBlockM;
  if (blocks_x == 0 || blocks_y == 0) return hipSuccess;
  if (blocks_y > 0xFFFF) return hipErrorInvalidValue;  // more than a grid holds
  matmul_relu<<<dim3(u32(blocks_x), u32(blocks_y)), kThreads, 0, stream>>>(A, B, C, M, N, K);
  return hipGetLastError();
}

#endif  // __HIPCC_RTC__
