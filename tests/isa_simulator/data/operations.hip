// Small kernels, each for one group of instructions, compared with numpy by test_operations.py.
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

using u32 = unsigned int;
using fp16 = _Float16;
using fp16x2 = fp16 __attribute__((ext_vector_type(2)));
using fp16x4 = fp16 __attribute__((ext_vector_type(4)));
using short4v = short __attribute__((ext_vector_type(4)));
using fp32x2 = float __attribute__((ext_vector_type(2)));
using fp32x4 = float __attribute__((ext_vector_type(4)));
using fp32x16 = float __attribute__((ext_vector_type(16)));
using i32x4 = int __attribute__((ext_vector_type(4)));
using lds_u32 = unsigned int __attribute__((address_space(3)));

// Softmax over rows of 64: shuffles, exponentials, a division.
extern "C" __global__ void __launch_bounds__(256) softmax(const float* x, float* y, int rows) {
  const int row = blockIdx.x * (blockDim.x / 64) + threadIdx.x / 64;
  if (row >= rows) return;
  const float value = x[row * 64 + threadIdx.x % 64];
  float maximum = value;
  for (int mask = 32; mask > 0; mask >>= 1) maximum = fmaxf(maximum, __shfl_xor(maximum, mask));
  const float exponential = exp2f((value - maximum) * 1.4426950408889634f);
  float sum = exponential;
  for (int mask = 32; mask > 0; mask >>= 1) sum += __shfl_xor(sum, mask);
  y[row * 64 + threadIdx.x % 64] = exponential / sum;
}

// Sum and maximum within 16 lanes by DPP.
extern "C" __global__ void __launch_bounds__(64) row_sum(const float* x, float* y) {
  float sum = x[threadIdx.x];
  sum += __builtin_bit_cast(float, __builtin_amdgcn_mov_dpp(__builtin_bit_cast(int, sum), 0xB1, 0xF, 0xF, true));
  sum += __builtin_bit_cast(float, __builtin_amdgcn_mov_dpp(__builtin_bit_cast(int, sum), 0x4E, 0xF, 0xF, true));
  sum += __builtin_bit_cast(float, __builtin_amdgcn_mov_dpp(__builtin_bit_cast(int, sum), 0x141, 0xF, 0xF, true));
  sum += __builtin_bit_cast(float, __builtin_amdgcn_mov_dpp(__builtin_bit_cast(int, sum), 0x140, 0xF, 0xF, true));
  y[threadIdx.x] = sum;
}

// Integer arithmetic of all kinds; ten results a thread.
extern "C" __global__ void integers(const int* a, const int* b, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int x = a[i], y = b[i];
  const u32 ux = x, uy = y | 1;
  const long long wide = static_cast<long long>(x) * y;
  int* o = out + 12 * i;
  o[0] = x / (y | 1);
  o[1] = x % (y | 1);
  o[2] = ux / uy;
  o[3] = static_cast<int>(wide >> 17);
  o[4] = static_cast<int>(wide >> 40);
  o[5] = __popc(ux) + __clz(x | 1) * 64 + __ffs(y | 1) * 4096;
  o[6] = x << (y & 31);
  o[7] = x >> (y & 31);
  o[8] = static_cast<int>(ux >> (uy & 31));
  o[9] = min(x, y) ^ max(x, y);
  o[10] = (x & 0xFF) | (y << 24) | ((x >> 8 & 0xFFFF) << 8);
  o[11] = static_cast<signed char>(x) + static_cast<short>(y) - static_cast<unsigned char>(x >> 8);
}

// binary32 functions; eight results a thread.
extern "C" __global__ void floats(const float* x, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float v = x[i];
  float* o = out + 12 * i;
  o[0] = sqrtf(fabsf(v));
  o[1] = rsqrtf(fabsf(v) + 1.0f);
  o[2] = 1.0f / (v * v + 1.0f);
  o[3] = fminf(fmaxf(v, -0.5f), 0.75f);
  o[4] = floorf(v) + 0.25f * ceilf(v);
  o[5] = v > 0.0f ? v : -2.0f * v;
  o[6] = logf(fabsf(v) + 1.0f);
  o[7] = tanhf(v);
  o[8] = static_cast<float>(static_cast<int>(v * 100.0f));
  o[9] = fmaf(v, v, -v);
  o[10] = expf(v);
  o[11] = rintf(v * 8.0f);
}

// 16-bit arithmetic: packed halves, conversions, bfloat16 by bits.
extern "C" __global__ void halves(const fp16* x, const fp16* y, fp16* out, unsigned short* bf16, int n) {
  const int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  const fp16x2 a = {x[i], x[i + 1]}, b = {y[i], y[i + 1]};
  const fp16x2 packed = a * b + a;
  out[i] = packed[0];
  out[i + 1] = static_cast<fp16>(static_cast<float>(packed[1]) * 0.5f + static_cast<float>(a[0]));
  const u32 bits = __builtin_bit_cast(u32, static_cast<float>(a[1]) * 3.0f);
  bf16[i / 2] = static_cast<unsigned short>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// Narrow loads and stores, unaligned to dwords.
extern "C" __global__ void bytes(const signed char* a, const unsigned short* b, short* out, unsigned char* low, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = static_cast<short>(a[i] + b[i]);
  low[i] = static_cast<unsigned char>(b[i] >> 8);
}

extern "C" __global__ void atomics(float* sum, int* count, u32* maximum, const float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsafeAtomicAdd(sum + i % 3, x[i]);
  atomicAdd(count, 1);
  atomicMax(maximum, static_cast<u32>(i * 7 % 1000));
}

// Dynamic LDS, a transpose of 32 x 32 words with padding.
extern "C" __global__ void __launch_bounds__(1024) transpose(const float* x, float* y, int n) {
  extern __shared__ float tile[];
  const int column = threadIdx.x % 32, row = threadIdx.x / 32;
  tile[row * 33 + column] = x[(blockIdx.y * 32 + row) * n + blockIdx.x * 32 + column];
  __syncthreads();
  y[(blockIdx.x * 32 + row) * n + blockIdx.y * 32 + column] = tile[column * 33 + row];
}

extern "C" __global__ void __launch_bounds__(64) multiply_bf16(const short4v* a, const short4v* b, fp32x4* c) {
  const fp32x4 zero = {0, 0, 0, 0};
  c[threadIdx.x] = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a[threadIdx.x], b[threadIdx.x], zero, 0, 0, 0);
}

extern "C" __global__ void __launch_bounds__(64) multiply_bf16_wide(const short4v* a, const short4v* b, fp32x16* c) {
  const fp32x16 zero = {};
  c[threadIdx.x] = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a[threadIdx.x], b[threadIdx.x], zero, 0, 0, 0);
}

extern "C" __global__ void __launch_bounds__(64) multiply_fp16(const fp16x4* a, const fp16x4* b, fp32x4* c) {
  const fp32x4 one = {1, 1, 1, 1};
  c[threadIdx.x] = __builtin_amdgcn_mfma_f32_16x16x16f16(a[threadIdx.x], b[threadIdx.x], one, 0, 0, 0);
}

// Direct-to-LDS loads. No builtin before clang 21: the intrinsic is bound by its name.
__device__ void raw_buffer_load_lds(i32x4 resource, lds_u32* lds, int size, int voffset, int soffset, int offset,
                                    int cache) __asm("llvm.amdgcn.raw.buffer.load.lds");

extern "C" __global__ void __launch_bounds__(256) direct_load(const float* x, float* y, int n, int wait) {
  __shared__ float tile[256];
  const u32 low = static_cast<u32>(reinterpret_cast<unsigned long long>(x));
  const u32 high = static_cast<u32>(reinterpret_cast<unsigned long long>(x) >> 32);
  const i32x4 resource = {static_cast<int>(low), static_cast<int>(high), 4 * n, 0x00027000};
  raw_buffer_load_lds(resource, (lds_u32*)&tile[threadIdx.x / 64 * 64], 4, threadIdx.x * 4, 0, 0, 0);
  if (wait) asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
  __builtin_amdgcn_s_barrier();
  asm volatile("ds_read_b32 %0, %1\n\ts_waitcnt lgkmcnt(0)" : "=v"(y[threadIdx.x]) : "v"((threadIdx.x ^ 1) * 4));
}

// Misbehaviour, one kind each.
extern "C" __global__ void __launch_bounds__(128) race(float* x) {
  __shared__ float tile[128];
  tile[threadIdx.x] = x[threadIdx.x];
  __builtin_amdgcn_wave_barrier();
  x[threadIdx.x] = tile[127 - threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(64) out_of_bounds(float* x) { x[threadIdx.x + 1] = 1.0f; }

extern "C" __global__ void __launch_bounds__(64) endless(volatile float* x) {
  while (x[0] == 0.0f) x[1] = 1.0f;
}

extern "C" __global__ void __launch_bounds__(64) conflicts(const float* x, float* y, int stride) {
  extern __shared__ float tile[];
  for (int i = threadIdx.x; i < 64 * stride; i += 64) tile[i] = x[i];
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x * stride];
}

extern "C" __global__ void __launch_bounds__(64) private_array(const int* x, int* y) {
  int values[32];
  for (int i = 0; i < 32; ++i) values[i] = x[i] + i;
  y[threadIdx.x] = values[x[threadIdx.x] & 31];
}
