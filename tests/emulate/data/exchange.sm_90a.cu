// exchange: adds the halves of a tile across a cluster of two blocks                        CUDA, sm_90a
//
// Written by hand for the emulator's tests: multicast loads, barriers across a cluster, TMA's reduction.

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

constexpr int kRows = 32;
constexpr int kColumns = 32;  // of one half of the tile
constexpr int kThreads = 128;
constexpr int kRounds = 3;

struct alignas(1024) SharedStorage {
  float X_shared[2][kRows][kColumns];  // the halves; each block loads one for both
  float Y_shared[kRows][kColumns];
  u64 full;
  u64 empty;
};

// --------------------------------------------------------------------------------------------- device primitives

@PRIMITIVES@

}  // namespace

// --------------------------------------------------------------------------------------------- kernel

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kThreads)
    exchange(const __grid_constant__ CUtensorMap X, const __grid_constant__ CUtensorMap Y) {
  SharedStorage& shared = shared_storage();
  const u32 rank = cluster_rank();
  const int thread = threadIdx.x;
  if (thread == 0) {
    mbarrier_init(shared.full, 1);
    mbarrier_init(shared.empty, 2);  // an arrival from each block of the cluster
    fence_barrier_init();
  }
  cluster_sync();

  for (int round = 0; round < kRounds; ++round) {
    if (thread == 0) {
      // exchange.py:5  T.copy(X[round, rank], X_shared[rank])
      mbarrier_wait(shared.empty, round % 2 ^ 1);
      mbarrier_arrive_expect_tx(shared.full, sizeof(shared.X_shared));
      tma_load_3d_multicast(shared.X_shared[rank], X, rank * kColumns, 0, round, shared.full, 0b11);
    }
    mbarrier_wait(shared.full, round % 2);

    // exchange.py:6  Y_shared[i, j] = X_shared[0, i, j] + X_shared[1, i, j]
    for (int i = thread; i < kRows * kColumns; i += kThreads)
      shared.Y_shared[i / kColumns][i % kColumns] =
          shared.X_shared[0][i / kColumns][i % kColumns] + shared.X_shared[1][i / kColumns][i % kColumns];
    fence_proxy_async();
    __syncthreads();
    if (thread < 2) mbarrier_arrive_cluster(shared.empty, thread);

    // exchange.py:7  T.atomic_add(Y, Y_shared)
    if (thread == 0) {
      tma_reduce_add_2d(Y, shared.Y_shared, 0, 0);
      tma_store_commit();
      tma_store_wait_read();
    }
    __syncthreads();
  }
  if (thread == 0) tma_store_wait();
  cluster_sync();
}
