// What the twins of the CUDA primitives call; the signatures follow the PTX instructions.
#pragma once

#include <cstdint>

#include "interface.hpp"

namespace emulator::nvidia {

using u32 = unsigned int;
using u64 = unsigned long long;

// ---- mbarrier, clusters (PTX ISA 9.7.13.15, 9.7.13.3)
void mbarrier_init(u64& barrier, int arrivals, int line);
void mbarrier_arrive(u64& barrier, int line);
void mbarrier_arrive_expect_tx(u64& barrier, u32 bytes, int line);
void mbarrier_arrive_cluster(u64& barrier, u32 block, int line);
void mbarrier_wait(u64& barrier, u32 phase, int line);
void fence_barrier_init(int line);
u32 cluster_rank();
void cluster_sync(int line);

// ---- Memory fences (PTX ISA 9.7.13.4): with the thread's own work, all that it has seen becomes visible to the device.
void fence_device();

// ---- TMA (PTX ISA 9.7.9.27): `map` holds the number of a tensor map of the launch
enum class Reduction { kNone, kAdd };
void tma_load(void* tile, const void* map, int rank, const int* coordinates, u64& barrier, int line);
void tma_load_multicast(void* tile, const void* map, int rank, const int* coordinates, u64& barrier,
                        unsigned short blocks, int line);
void tma_store(const void* map, const void* tile, int rank, const int* coordinates, Reduction reduction, int line);
void tma_store_commit(int line);
void tma_store_wait(bool reads_only, int line);
void fence_proxy_async(int line);
void prefetch_tensor_map(const void* map, int line);

// ---- cp.async (PTX ISA 9.7.9.25): copies `source_bytes` of `bytes`, the rest is zero
void cp_async(void* shared, const void* global, int bytes, int source_bytes, int line);
void cp_async_commit(int line);
void cp_async_wait(int pending, int line);

// ---- Matrices in registers (PTX ISA 9.7.14.5)
void ldmatrix(u32* fragment, const void* row, int count, bool transpose, int line);
void stmatrix(void* row, const u32* fragment, int count, bool transpose, int line);
enum class Operand { kF16, kBF16 };
void mma_m16n8k16(float* d, const u32* a, const u32* b, Operand type, int line);

// ---- wgmma (PTX ISA 9.7.15): A is a descriptor, or four registers where `a_registers` is not null
struct Wgmma {
  int columns;  // n
  Operand type;
  bool a_mn_major, b_mn_major;
};
void wgmma(const Wgmma& shape, float* d, u64 a, const u32* a_registers, u64 b, bool accumulate, int line);
void warpgroup_arrive(int line);
void warpgroup_commit(int line);
void warpgroup_wait(int pending, int line);

// ---- Registers and named barriers (PTX ISA 9.7.19.5, 9.7.13.1)
void register_release(int registers, int line);
void register_acquire(int registers, int line);
void named_barrier_sync(int id, int threads, int line);
void named_barrier_arrive(int id, int threads, int line);

}  // namespace emulator::nvidia
