// What the emulated machine remembers for NVIDIA's asynchronous units.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "../clocks.hpp"
#include "../report.hpp"

namespace emulator {
struct Fiber;
}

namespace emulator::nvidia {

// Element types that TMA and the tensor cores know
enum class Element { kF16, kBF16, kF32, kF64, kI32, kU32, kI64, kU64, kI16, kU16, kI8, kU8 };

// A tensor map, as cuTensorMapEncodeTiled would make it; strides in bytes
struct TensorMap {
  static constexpr int kMaxRank = 5;
  std::string tensor;
  Element element;
  unsigned element_bytes;
  int rank;
  std::uintptr_t base;
  std::int64_t extents[kMaxRank], strides[kMaxRank];
  unsigned box[kMaxRank];
  unsigned swizzle_bytes;  // 0, 32, 64 or 128

  std::size_t box_bytes() const {
    std::size_t bytes = element_bytes;
    for (int i = 0; i < rank; ++i) bytes *= box[i];
    return bytes;
  }
};

// One asynchronous copy: what it does when it lands
using Work = std::function<void()>;

// Groups of one thread's copies (cp.async) or bulk stores: committed in order, waited for in order
struct CopyGroups {
  unsigned component = 0;  // of the clocks, 0 before the first use
  Time committed = 0;      // groups
  Time completed = 0;
  Time last_used = 0;  // the last group that has a copy
  int last_line = 0;
  std::vector<Work> open;
  std::deque<std::vector<Work>> pending;
};

// Registers that the tensor cores still use: the accumulators (no access), or operand A (no write)
struct GuardedRegisters {
  std::uintptr_t begin, end;
  std::uint32_t last_operation;
  bool reads_allowed;
  Site site;
};

struct ThreadState {
  CopyGroups copies;                  // cp.async
  CopyGroups stores;                  // bulk stores: reads of shared memory
  unsigned store_writes = 0;          // component of their writes to global memory
  std::vector<std::uint32_t> groups;  // committed wgmma groups not waited for: the last operation of each
  std::uint32_t committed_operation = 0;
  std::vector<GuardedRegisters> guarded;
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> accumulators;  // known ranges
  bool fenced = false;  // warpgroup_arrive since the last plain access to accumulators
  unsigned registers = 0;
};

// An mbarrier object (PTX ISA, "Parallel synchronization: mbarrier")
struct Mbarrier {
  std::uint32_t offset = 0;  // in shared memory
  unsigned rank = 0;         // of its block in the cluster
  std::int32_t expected = 0, pending = 0;
  std::int64_t transactions = 0;  // bytes
  std::uint32_t phase = 0;
  bool fenced = false;  // its initialisation is visible to the asynchronous proxy and to the cluster
  Fiber* initialiser = nullptr;
  int line = 0;       // of the initialisation
  int copy_line = 0;  // of the last copy that completes on it
  Gathering gathering;
  Knowledge published;
  unsigned component = 0;   // of the copies that complete on it, 0 before the first
  std::deque<bool> landed;  // of the copies after `landed_before`, in order of issue
  Time issued = 0, landed_before = 0;
  std::vector<std::pair<Fiber*, std::uint32_t>> waiting;  // with the parity waited for
};

// The accumulators of a chain of wgmma operations, as a matrix while any is under way
struct Accumulators {
  float* registers[128];
  int columns;
  std::vector<float> tile;  // [64][columns]
  std::uint32_t last_operation = 0;
  unsigned returned = 0;  // threads that have their registers back
  bool has_returned[128] = {};
};

struct WgmmaOperation {
  std::uint32_t number;
  Work work;
};

struct Warpgroup {
  unsigned component = 0;
  std::uint32_t issued = 0, completed = 0;
  std::vector<Fiber*> arrived;
  int arrived_line = 0;
  std::deque<WgmmaOperation> pending;
  std::vector<std::unique_ptr<Accumulators>> accumulators;
};

struct BlockState {
  std::unordered_map<std::uint32_t, std::unique_ptr<Mbarrier>> barriers;  // by offset in shared memory
  std::vector<Warpgroup> warpgroups;
  long free_registers = 0;
  std::vector<Fiber*> waiting_for_registers;
};

}  // namespace emulator::nvidia
