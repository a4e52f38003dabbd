// matmul_split_k: C from A, B                                                         HIP, gfx942
//
// Emitted by tilegen 0.1.0 from examples/split_k.py:15 (sha256 5c506aa0). Do not edit; regenerate with
//   tilegen emit examples/split_k.py:matmul_split_k --target gfx942 --dim M=16 --dim K=14336 --dim N=4096
//
// Launch     grid  32 x 1 x 4
//            block 128 threads = 2 waves
//            static LDS 36,880 bytes
//
// Arguments  A              fp16 [16, 14336] row-major, 16-byte aligned
//            B              fp16 [14336, 4096] row-major, 16-byte aligned
//            C              fp16 [16, 4096] row-major, 16-byte aligned
//            C_local_parts  fp32 [32, 4, 4, 128, 4] row-major, 16-byte aligned, scratch memory of one launch at a time
//            arrivals       uint32 [32] contiguous, scratch memory of one launch at a time, 0 before the first launch,
//                           and again after each
//            A tensor that is written overlaps no other.
//
// Buffer     scope      shape              layout (Shape:Stride, elements)                        bytes  bank conflicts
// A_shared   LDS        fp16 [2][16, 64]   Sw<3,3,3> o (16, 64):(64, 1)                           4,096  0
// B_shared   LDS        fp16 [2][64, 128]  Sw<3,3,3> o Sw<3,3,4> o Sw<3,3,6> o (64, 128):(1,     32,768  0
//                                            64)
// C_staging  LDS        fp16 [2, 16, 64]   Sw<3,3,3> o (2, 16, 64):(1024, 64, 1)                  4,096  0
//            lies over A_shared and B_shared
// C_local    registers  fp32 [16, 128]     ((16, 4, 2), (8, 2)):((128, 8, 64), (1, 32)), 16 a thread
//
// Pipeline   loop step: tile step + 2 global -> registers, tile step + 1 registers -> LDS, tile step LDS -> operands;
//            num_stages=5: 2 in LDS, 1 in registers; one barrier a tile
//            math by mfma_f32_16x16x16_f16

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
using fp32x4 = float __attribute__((ext_vector_type(4)));

// --------------------------------------------------------------------------------------------- configuration

constexpr int kM = 16, kK = 14336, kN = 4096;  // of the tensors' shapes
constexpr int kSplitK = 4, kBlockM = 16, kBlockN = 128, kBlockK = 64;
constexpr int kTilesStep = 56;  // iterations of step
constexpr int kThreads = 128;
constexpr int kStages = 2;                          // tiles in LDS: one is read while the next is filled
constexpr int kCLocalPartElements = 16 * kThreads;  // what a block leaves of C_local
constexpr int kWaves = 2;

struct alignas(16) SharedStorage {
  union {
    struct {
      fp16 A_shared[kStages][kBlockM][kBlockK];
      fp16 B_shared[kStages][kBlockN][kBlockK];  // transposed
    };
    fp16 C_staging[kWaves][16][64];
  };
  int arrived;  // of the blocks that sum, before this one
};

static_assert(sizeof(SharedStorage) == 36880, "the shared memory that the header above states");

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

// v_mfma_f32_16x16x16_f16: CDNA ISA, "Matrix Arithmetic Instructions". C[16, 16] += A[16, 16] B[16, 16]. Lane l holds k
// 4 (l / 16) + 0 ... 3 of row l % 16 of A and of column l % 16 of B, and in register r row
// 4 (l / 16) + r of that column of C. Gemms pass their B as a and their A as b: C comes out
// transposed, and a lane holds neighbours along a row of it.
TILEGEN_DEVICE void mfma_f32_16x16x16_f16(fp16x4 a, fp16x4 b, float (&c)[4]) {
  fp32x4 sum;
  __builtin_memcpy(&sum, c, sizeof(sum));
  sum = __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, sum, 0, 0, 0);
  __builtin_memcpy(c, &sum, sizeof(sum));
}

// Keeps a block of C in accumulation registers up to here. Else the compiler moves all blocks to vector registers where
// the loop ends, long before they are used.
TILEGEN_DEVICE void hold_accumulators(float (&c)[4]) {
  fp32x4 block;
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

// Counts the block in, up to last and on to 0; after it, the block sees what those wrote who have counted before.
TILEGEN_DEVICE u32 count_in(u32& counter, u32 last) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
  const u32 before = atomicInc(&counter, last);
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
  return before;
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
    matmul_split_k(const fp16* __restrict__ A, const fp16* __restrict__ B, fp16* __restrict__ C,
                   float* __restrict__ C_local_parts, u32* __restrict__ arrivals) {
  SharedStorage& shared = shared_storage();
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int bz = blockIdx.z;
  const int thread = threadIdx.x;
  const int wave = threadIdx.x / 64;
  const int lane = threadIdx.x % 64;
  // [0][ni][r] is row lane % 16, column 64 * wave + 8 * (lane / 16) + 4 * (ni % 2) + 32 * (ni / 2) + r
  alignas(16) float C_local[1][4][4] = {};  // split_k.py:34  T.clear(C_local)

  // split_k.py:37  T.copy(A[by * block_M, k], A_shared)
  fp16x8 A_next;
  const auto load_A = [&](int step) {
    const TileWindow<fp16> window = {&A[by * kBlockM * kK + (bz * (kK / kBlockK / kSplitK) + step) * kBlockK],
                                     kM - by * kBlockM, kK - (bz * (kK / kBlockK / kSplitK) + step) * kBlockK, kK};
    const BufferResource window_resource = window.resource<kBlockM>();
    const int row = 8 * wave + lane / 8;
    const int column = 8 * (lane % 8);
    A_next = buffer_load_b128<fp16x8>(window_resource, window.offset(row, column));
  };
  const auto store_A = [&](int stage) {
    const int row = 8 * wave + lane / 8;
    *reinterpret_cast<fp16x8*>(&shared.A_shared[stage][row][8 * ((lane % 8) ^ (row % 8))]) = A_next;
  };

  // split_k.py:38  T.copy(B[k, bx * block_N], B_shared)
  fp16x8 B_next[8];
  const auto load_B = [&](int step) {
    const TileWindow<fp16> window = {&B[(bz * (kK / kBlockK / kSplitK) + step) * kBlockK * kN + bx * kBlockN],
                                     kK - (bz * (kK / kBlockK / kSplitK) + step) * kBlockK, kN - bx * kBlockN, kN};
    const BufferResource window_resource = window.resource<kBlockK>();
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      const int row = 32 * wave + 16 * (lane / 32) + 8 * (lane / 8 % 2) + r;
      const int column = 64 * (lane / 16 % 2) + 8 * (lane % 8);
      B_next[r] = buffer_load_b128<fp16x8>(window_resource, window.offset(row, column));
    }
  };
  const auto store_B = [&](int stage) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const int row = 64 * (lane / 16 % 2) + 8 * (lane % 8) + n;
      const int first = 32 * wave + 16 * (lane / 32) + 8 * (lane / 8 % 2);  // of 8 elements of the row
      const fp16x8 elements = {B_next[0][n], B_next[1][n], B_next[2][n], B_next[3][n],
                               B_next[4][n], B_next[5][n], B_next[6][n], B_next[7][n]};
      *reinterpret_cast<fp16x8*>(
          &shared.B_shared[stage][row][8 * ((first / 8) ^ (row % 8) ^ (row / 2 % 8) ^ (row / 8 % 8))]) = elements;
    }
  };

  // split_k.py:39  T.gemm(A_shared, B_shared, C_local)
  fp16x8 A_operand[2][1];
  fp16x8 B_operand[2][4];
  const auto read_operands = [&](int slot, int stage, int step) {
    {
      const int row = lane % 16;
      A_operand[slot][0] =
          *reinterpret_cast<const fp16x8*>(&shared.A_shared[stage][row][8 * ((lane / 16 + 4 * step) ^ (row % 8))]);
    }
#pragma unroll
    for (int ni = 0; ni < 4; ++ni) {
      // so ordered that a lane gets neighbours along a row of C
      const int row = 64 * wave + 8 * (lane / 4 % 4) + lane % 4 + 4 * (ni % 2) + 32 * (ni / 2);
      B_operand[slot][ni] = *reinterpret_cast<const fp16x8*>(
          &shared.B_shared[stage][row][8 * ((lane / 16 + 4 * step) ^ (row % 8) ^ (row / 2 % 8) ^ (row / 8 % 8))]);
    }
  };
  const auto multiply = [&](int slot) {
#pragma unroll
    for (int ni = 0; ni < 4; ++ni)
      mfma_f32_16x16x16_f16(low_half(B_operand[slot][ni]), low_half(A_operand[slot][0]), C_local[0][ni]);
#pragma unroll
    for (int ni = 0; ni < 4; ++ni)
      mfma_f32_16x16x16_f16(high_half(B_operand[slot][ni]), high_half(A_operand[slot][0]), C_local[0][ni]);
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

  // split_k.py:35  for step in T.Pipelined(steps, num_stages=num_stages)
  for (int step = 0; step < kTilesStep; ++step) {
    const int stage = step % kStages;
    // Tile step + 1 to LDS, tile step + 2 to registers, under the steps of tile step
    store_A(1 - stage);
    store_B(1 - stage);
    load_A(step + 2);
    load_B(step + 2);
    read_operands(1, stage, 1);
    multiply(0);
    schedule<8, 1, 2, 2, 1>();  // 5 LDS reads, 9 LDS writes and 9 loads among 8 MFMAs
    block_sync_lds();           // tile step has been read, tile step + 1 is in LDS

    read_operands(0, 1 - stage, 0);
    multiply(1);
    schedule<5, 1, 0, 0, 1>();  // 5 LDS reads among 8 MFMAs
  }
#pragma unroll
  for (int ni = 0; ni < 4; ++ni) hold_accumulators(C_local[0][ni]);

  // Epilogue
  // split_k.py:40  T.sum_blocks(C_local, axis=bz)
  float* C_local_own = C_local_parts + i64(bx * kSplitK + bz) * kCLocalPartElements + 4 * thread;
#pragma unroll
  for (int ni = 0; ni < 4; ++ni)
    *reinterpret_cast<fp32x4*>(&C_local_own[4 * ni * kThreads]) = *reinterpret_cast<const fp32x4*>(&C_local[0][ni][0]);
  __threadfence();   // the stores of every wave are there before one counts the block
  block_sync_lds();  // all threads have stored their part
  if (thread == 0) shared.arrived = count_in(arrivals[bx], kSplitK - 1);  // back to 0 with the last
  block_sync_lds();
  if (shared.arrived == kSplitK - 1) {  // the last of them goes on
    const float* C_local_first = C_local_parts + i64(bx * kSplitK) * kCLocalPartElements + 4 * thread;
#pragma unroll
    for (int ni = 0; ni < 4; ++ni) {
      *reinterpret_cast<fp32x4*>(&C_local[0][ni][0]) =
          *reinterpret_cast<const fp32x4*>(&C_local_first[4 * ni * kThreads]);
#pragma unroll
      for (int part = 1; part < kSplitK; ++part) {  // loads of all parts run at once
        alignas(16) float partial[4];
        *reinterpret_cast<fp32x4*>(&partial[0]) =
            *reinterpret_cast<const fp32x4*>(&C_local_first[i64(part) * kCLocalPartElements + 4 * ni * kThreads]);
#pragma unroll
        for (int v = 0; v < 4; ++v) C_local[0][ni][v] += partial[v];
      }
    }

    // split_k.py:41  T.copy(C_local, C[by * block_M, bx * block_N])
    const TileWindow<fp16> C_window = {&C[by * kBlockM * kN + bx * kBlockN], kM - by * kBlockM, kN - bx * kBlockN, kN};
    const BufferResource C_window_resource = C_window.resource<kBlockM>();
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const int row = lane % 16;
      fp16x8 columns;
#pragma unroll
      for (int e = 0; e < 8; ++e) columns[e] = static_cast<fp16>(C_local[0][(8 * v + e) / 4][(8 * v + e) % 4]);
      *reinterpret_cast<fp16x8*>(&shared.C_staging[wave][row][8 * ((lane / 16 + 4 * v) ^ (row % 8))]) = columns;
    }
    wave_sync_lds();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = lane / 8 + 8 * i;
      const fp16x8 columns =
          *reinterpret_cast<const fp16x8*>(&shared.C_staging[wave][row][8 * ((lane % 8) ^ (row % 8))]);
      buffer_store_b128(columns, C_window_resource, C_window.offset(row, 64 * wave + 8 * (lane % 8)));
    }
  }
}

// --------------------------------------------------------------------------------------------- host

#ifndef __HIPCC_RTC__

constexpr int kTilesBx = 32;  // T.ceildiv(N, block_N)

// Enqueues matmul_split_k on the stream. Returns hipErrorInvalidValue where the contract above is broken.
extern "C" hipError_t matmul_split_k_launch(const _Float16* A, const _Float16* B, _Float16* C, float* C_local_parts,
                                            unsigned int* arrivals, hipStream_t stream) {
  if ((u64(A) | u64(B) | u64(C) | u64(C_local_parts)) % 16 != 0) return hipErrorInvalidValue;

  matmul_split_k<<<dim3(kTilesBx, 1, kSplitK), kThreads, 0, stream>>>(A, B, C, C_local_parts, arrivals);
  return hipGetLastError();
}

#endif  // __HIPCC_RTC__
