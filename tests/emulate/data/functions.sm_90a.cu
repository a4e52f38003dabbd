// functions: what device code may call, one row of the output each                          CUDA, sm_90a
//
// Written by hand for the emulator's tests.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#ifndef __CUDACC_RTC__
#include <cuda_runtime.h>
#endif

namespace {

// --------------------------------------------------------------------------------------------- device types

#define TILEGEN_DEVICE __device__ __forceinline__

using u32 = unsigned int;

// --------------------------------------------------------------------------------------------- configuration

constexpr int kThreads = 64;
constexpr int kTotals = 8;

struct alignas(16) SharedStorage {
  unsigned short matrices[2][4][8][8];
};

// --------------------------------------------------------------------------------------------- device primitives

@PRIMITIVES@

}  // namespace

// --------------------------------------------------------------------------------------------- kernel

// X, Y [n] floats; I, J [n] integers; F [rows, n] and U [rows, n] written; T [8] zeroed: totals by atomics
extern "C" __global__ void __launch_bounds__(kThreads)
    functions(const float* X, const float* Y, const u32* I, const u32* J, float* F, u32* U, float* T, int n) {
  const int t = blockIdx.x * kThreads + threadIdx.x;
  const int lane = threadIdx.x % 32;
  const float x = X[t], y = Y[t];
  const u32 i = I[t], j = J[t];
  int f = 0, u = 0;
  auto put = [&](float value) { F[f++ * n + t] = value; };
  auto put_bits = [&](u32 value) { U[u++ * n + t] = value; };

  // fp16: conversions, arithmetic rounded once
  const half hx = __float2half_rn(x), hy = __float2half_rn(y);
  put(__half2float(hx));
  put(__half2float(hx + hy));
  put(__half2float(hx - hy));
  put(__half2float(hx * hy));
  put(__half2float(__hfma(hx, hy, hx)));
  put(__half2float(__hmax(hx, hy)));
  put(__half2float(__hmin(hx, hy)));
  const half2 pair = __hfma2(__floats2half2_rn(x, y), __floats2half2_rn(y, y), __float2half2_rn(x));
  put(__low2float(pair));
  put(__high2float(pair));

  // bf16
  const __nv_bfloat16 bx = __float2bfloat16_rn(x), by = __float2bfloat16_rn(y);
  put(__bfloat162float(bx));
  put(__bfloat162float(bx + by));
  put(__bfloat162float(bx * by));
  put(__bfloat162float(__hfma(bx, by, bx)));
  const __nv_bfloat162 wide = __floats2bfloat162_rn(x, y) * __floats2bfloat162_rn(y, x);
  put(__bfloat162float(wide.x));
  put(__bfloat162float(wide.y));

  // fp32
  put(exp2_approx(x));
  put(__expf(x));
  put(rsqrtf(fabsf(x)));
  put(tanhf(x));
  put(erff(x));
  put(fmaf(x, y, 1.0f));
  put(__fdividef(x, y));
  put(logf(fabsf(x)));
  put(min(x, y));
  put(max(x, y));

  // Warp collectives
  put(__shfl_sync(~0u, x, 5));
  put(__shfl_sync(~0u, x, lane / 2));
  put(__shfl_xor_sync(~0u, x, 3));
  put(__shfl_up_sync(~0u, x, 2));
  put(__shfl_down_sync(~0u, x, 7));
  put(__shfl_xor_sync(~0u, x, 1, 8));
  put(__shfl_down_sync(~0u, x, 3, 8));
  put(__shfl_up_sync(~0u, x, 3, 16));
  put_bits(__ballot_sync(~0u, x > 0.0f));
  put_bits(__any_sync(~0u, x > 1.5f));
  put_bits(__all_sync(~0u, x > -1.5f));
  put_bits(__reduce_add_sync(~0u, i));
  put_bits(__reduce_max_sync(~0u, i));
  put_bits(__reduce_xor_sync(~0u, i));
  put_bits(__match_any_sync(~0u, i % 4));

  // Integers
  put_bits(lop3<0xEA>(i, j, 0x0F0F0F0F));
  put_bits(lop3<0x96>(i, j, i >> 3));
  put_bits(byte_permute(i, j, 0x5140));
  put_bits(byte_permute(i, j, 0xC3A1));
  put_bits(u32(__dp4a(int(i), int(j), 7)));
  put_bits(u32(__popc(i)));
  put_bits(u32(__clz(int(i))));
  put_bits(__brev(i));
  put_bits(__umulhi(i, j));
  put_bits(__float_as_uint(x));
  put_bits(__funnelshift_r(i, j, 5));

  // Matrices in registers
  SharedStorage& shared = shared_storage();
  auto& matrices = shared.matrices[threadIdx.x / 32];
  const u32 fragment[4] = {i, j, i ^ j, i + j};
  u32 loaded[4], loaded_pair[2], loaded_one[1];
  stmatrix_x4(matrices[lane / 8][lane % 8], fragment);
  __syncwarp();
  ldmatrix_x4(loaded, matrices[lane / 8][lane % 8]);
  for (int r = 0; r < 4; ++r) put_bits(loaded[r]);
  ldmatrix_x4_trans(loaded, matrices[lane / 8][lane % 8]);
  for (int r = 0; r < 4; ++r) put_bits(loaded[r]);
  ldmatrix_x2(loaded_pair, matrices[lane / 8 % 2 + 1][lane % 8]);
  put_bits(loaded_pair[0]);
  put_bits(loaded_pair[1]);
  ldmatrix_x1_trans(loaded_one, matrices[3][lane % 8]);
  put_bits(loaded_one[0]);
  __syncwarp();
  stmatrix_x4_trans(matrices[lane / 8][lane % 8], fragment);
  __syncwarp();
  ldmatrix_x4(loaded, matrices[lane / 8][lane % 8]);
  for (int r = 0; r < 4; ++r) put_bits(loaded[r]);

  // mma.m16n8k16 on halves between -1 and 1
  const half2 ab = __floats2half2_rn(x, y), ba = __floats2half2_rn(y, -x);
  u32 a[4], b[2];
  for (int r = 0; r < 4; ++r) a[r] = r % 2 ? reinterpret_cast<const u32&>(ab) : reinterpret_cast<const u32&>(ba);
  for (int r = 0; r < 2; ++r) b[r] = r % 2 ? reinterpret_cast<const u32&>(ba) : reinterpret_cast<const u32&>(ab);
  float d[4] = {x, y, -x, -y};
  SM80_16x8x16_F32F16F16F32_TN::fma(d, a, b);
  for (int r = 0; r < 4; ++r) put(d[r]);
  const __nv_bfloat162 cd = __floats2bfloat162_rn(x, y);
  for (int r = 0; r < 4; ++r) a[r] = reinterpret_cast<const u32&>(cd);
  for (int r = 0; r < 2; ++r) b[r] = reinterpret_cast<const u32&>(cd);
  SM80_16x8x16_F32BF16BF16F32_TN::fma(d, a, b);
  for (int r = 0; r < 4; ++r) put(d[r]);

  // Atomics; T is summed over all threads
  reduce_add(&T[0], 1.0f);
  atomicAdd(&T[1], float(i % 8));
  reduce_add_v2(&T[2], make_float2(1.0f, 2.0f));
  reduce_add_v4(&T[4], make_float4(1.0f, 2.0f, 3.0f, float(j % 4)));
}
