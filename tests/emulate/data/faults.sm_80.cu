// faults: one mistake for each value of `fault`; 0 is right                                 CUDA, sm_80
//
// Written by hand for the emulator's tests.

#include <cuda_fp16.h>

#ifndef __CUDACC_RTC__
#include <cuda_runtime.h>
#endif

namespace {

// --------------------------------------------------------------------------------------------- device types

#define TILEGEN_DEVICE __device__ __forceinline__

using u32 = unsigned int;
using u64 = unsigned long long;

// --------------------------------------------------------------------------------------------- configuration

constexpr int kThreads = 64;

struct alignas(16) SharedStorage {
  float values[kThreads];
  float others[kThreads];
  u64 barrier;
};

// --------------------------------------------------------------------------------------------- device primitives

@PRIMITIVES@

// --------------------------------------------------------------------------------------------- device helpers

TILEGEN_DEVICE int depth(const volatile char* frame, int levels) {
  volatile char here[1024];
  here[0] = frame[0];
  return levels == 0 ? here[0] : depth(here, levels - 1) + here[0];
}

}  // namespace

// --------------------------------------------------------------------------------------------- kernel

// X [128], Y [128] written, S [1] zeroed
extern "C" __global__ void __launch_bounds__(kThreads) faults(float* X, float* Y, float* S, int fault, int zero) {
  SharedStorage& shared = shared_storage();
  const int t = threadIdx.x;
  const int lane = t % 32;
  const int i = blockIdx.x * kThreads + t;
  float value = X[i];

  switch (fault) {
    case 0:  // faults.py:10  reverse through shared memory, and back
      shared.values[t] = value;
      __syncthreads();
      value = shared.values[kThreads - 1 - t];
      __syncthreads();
      shared.values[t] = value;
      __syncthreads();
      value = shared.values[kThreads - 1 - t];
      atomicAdd(S, value);
      break;
    case 1:  // faults.py:11  no barrier between write and read
      shared.values[t] = 0.0f;
      __syncthreads();
      shared.values[t] = value;
      value = shared.values[kThreads - 1 - t];
      break;
    case 2:  // faults.py:12  no barrier between read and the next write
      shared.values[t] = value;
      __syncthreads();
      value = shared.values[kThreads - 1 - t];
      shared.values[t] = value;
      break;
    case 3:  // faults.py:13  past the end of X
      value = X[i + 1];
      break;
    case 4:  // faults.py:14  before the start of X
      value = X[i - 1];
      break;
    case 5:  // faults.py:15  8 bytes at an address of 4
      value = reinterpret_cast<const float2*>(X + 2 * (t / 4) + 1)->x;
      break;
    case 6:  // faults.py:16  shared memory that nobody wrote
      value = shared.others[t];
      break;
    case 7:  // faults.py:17  a write to an input
      X[i] = value + 1.0f;
      break;
    case 8:  // faults.py:18  two collectives of one warp at once
      if (lane < 16)
        value = __shfl_xor_sync(~0u, value, 1);
      else
        __syncwarp();
      break;
    case 9:  // faults.py:19  a shuffle from a lane that has left
      if (lane >= 16) return;
      value = __shfl_sync(~0u, value, 20);
      break;
    case 10:  // faults.py:20  half a warp at a barrier
      named_barrier_sync(1, 48);
      break;
    case 11:  // faults.py:21  a barrier that the other warp does not come to
      if (t < 32) named_barrier_sync(1, 64);
      break;
    case 12:  // faults.py:22  a loop without end
      while (*const_cast<volatile float*>(&value) == *const_cast<volatile float*>(&value)) {
      }
      break;
    case 13:  // faults.py:23  a division by zero
      value = float(i / zero);
      break;
    case 14:  // faults.py:24
      __trap();
      break;
    case 15:  // faults.py:25  a warp is not in step: __syncwarp is missing
      shared.values[t] = 0.0f;
      __syncthreads();
      shared.values[t] = value;
      value = shared.values[t ^ 1];
      break;
    case 16:  // faults.py:26  with it, that is right
      shared.values[t] = value;
      __syncwarp();
      value = shared.values[t ^ 1];
      __syncwarp();
      shared.values[t] = value;
      __syncwarp();
      value = shared.values[t ^ 1];
      break;
    case 17:  // faults.py:27  both blocks write the same element
      Y[t] = value;
      return;
    case 18:  // faults.py:28  no address of anything
      value = *reinterpret_cast<const float*>(size_t(16) + size_t(zero));
      break;
    case 19:  // faults.py:29  too deep
      value = float(depth(reinterpret_cast<const volatile char*>(&value), 1024 + zero));
      break;
    case 20:  // faults.py:30  a barrier object that is none
      mbarrier_arrive(shared.barrier);
      break;
    case 21:  // faults.py:31  a plain read beside atomic additions
      atomicAdd(S, value);
      value = *S;
      break;
    case 22:  // faults.py:32  one barrier, two counts
      if (t < 32)
        named_barrier_sync(1, 64);
      else
        named_barrier_sync(1, 32);
      break;
    case 23:  // faults.py:33  leaves with a copy under way
      SM80_CP_ASYNC_CACHEALWAYS_ZFILL<4>::copy(&shared.values[t], X + i, true);
      cp_async_commit();
      break;
    case 24:  // faults.py:34  16 bytes at an address of 4
      SM80_CP_ASYNC_CACHEGLOBAL::copy(shared.values, X + 1);
      break;
    case 25:  // faults.py:35  waits for the copies before the last
      SM80_CP_ASYNC_CACHEALWAYS_ZFILL<4>::copy(&shared.values[t], X + i, true);
      cp_async_commit();
      cp_async_wait<1>();
      value = shared.values[t];
      cp_async_wait<0>();
      break;
    case 26:  // faults.py:36  half a warp at a matrix load
      if (lane < 16) {
        u32 fragment[1];
        ldmatrix_x1(fragment, shared.values);
      } else {
        return;
      }
      break;
    case 27:  // faults.py:37  uses a barrier object before the block has seen its initialisation
      if (t == 0) mbarrier_init(shared.barrier, 64);
      mbarrier_arrive(shared.barrier);
      break;
    case 28:  // faults.py:38  right: a thread waits in a loop for another
      if (i == 0) {
        while (atomicAdd(S, 0.0f) == 0.0f) {
        }
      }
      if (i == kThreads - 1) atomicExch(S, 1.0f);
      break;
  }
  // faults.py:40  Y[i] = value
  Y[i] = value;
}
