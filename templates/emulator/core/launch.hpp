// Runs a launch: clusters move onto the multiprocessors as others leave, until the grid is done.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <numeric>

#include "hooks.hpp"

namespace emulator {

// The place of one cluster on the machine: shared memory and stacks, used again by the next cluster
struct Slot {
  std::vector<Region*> shared;  // of each block
  std::vector<char*> stacks;    // of each thread
  std::unique_ptr<Cluster> cluster;
  std::vector<std::unique_ptr<Block>> blocks;
};

inline void check_leaving(Fiber& fiber) {
  const nvidia::ThreadState& state = fiber.nvidia;
  if (state.copies.last_used > state.copies.completed)
    report_misuse("barrier-misuse", "leaves the kernel with cp.async copies that it has not waited for",
                  state.copies.last_line);
  if (state.stores.last_used > state.stores.committed)
    report_misuse("barrier-misuse", "leaves the kernel with a TMA store that it has not committed",
                  state.stores.last_line);
  if (state.stores.last_used > state.stores.completed)
    report_misuse("barrier-misuse",
                  "leaves the kernel before tma_store_wait_read: the store may still read shared memory",
                  state.stores.last_line);
  if (!state.guarded.empty())
    stop_with_report("barrier-misuse",
                     "thread " + std::to_string(fiber.linear) + " of block " + describe(fiber.block->index) +
                         " leaves the kernel while the wgmma at {0} is under way",
                     {state.guarded[0].site});
}

inline void enter_kernel() {
  kernel().call(machine.arguments);
  Fiber& self = *machine.current;
  check_leaving(self);
  self.done = true;
  self.wait = Wait();
  Block& block = *self.block;
  Cluster& cluster = *block.cluster;
  --block.live;
  --cluster.live;
  lane_left(self);
  ThreadBarrier& barrier = block.barriers[0];
  if (block.live > 0 && barrier.arrived > 0 && barrier.arrived >= block.live && barrier.expected > block.live)
    open_barrier(barrier);
  if (cluster.live > 0 && cluster.barrier.arrived > 0 && cluster.barrier.arrived >= cluster.live)
    open_barrier(cluster.barrier);
  scheduler.leave(cluster.live == 0);
}

class Launch {
 public:
  explicit Launch(Region* static_shared) {
    const Config& config = machine.config;
    const unsigned threads = config.threads(), blocks = config.cluster_blocks();
    const unsigned wanted = static_shared != nullptr ? 1 : std::max(1u, config.multiprocessors / blocks);
    clusters_ = config.grid.x * config.grid.y * config.grid.z / blocks;
    slots_.resize(std::min(wanted, clusters_));
    for (Slot& slot : slots_) {
      for (unsigned block = 0; block < blocks; ++block) {
        slot.shared.push_back(static_shared != nullptr
                                  ? static_shared
                                  : &machine.memory.add(Space::kShared, "shared memory", config.shared_bytes, 0));
        for (unsigned thread = 0; thread < threads; ++thread) slot.stacks.push_back(make_stack());
      }
    }
    order_.resize(clusters_);
    std::iota(order_.begin(), order_.end(), 0u);
    if (config.schedule == Schedule::kReverse) std::reverse(order_.begin(), order_.end());
    if (config.schedule == Schedule::kRandom)
      for (unsigned i = clusters_; i > 1; --i) std::swap(order_[i - 1], order_[machine.random() % i]);
  }

  void run() {
    for (Slot& slot : slots_) start(slot);
    for (unsigned ended = 0; ended < clusters_; ++ended) {
      scheduler.run_until_a_cluster_ends();
      for (Slot& slot : slots_) {
        if (!slot.cluster || slot.cluster->live != 0) continue;
        retire(slot);
        if (next_ < clusters_) start(slot);
      }
    }
    scheduler.finish_jobs();
  }

 private:
  static char* make_stack() {
    const std::size_t page = std::size_t(sysconf(_SC_PAGESIZE));
    void* memory = mmap(nullptr, Scheduler::kStackBytes + page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) stop_with_report("resources", "the host has too little memory for the emulation", {});
    mprotect(memory, page, PROT_NONE);  // a stack overflow faults
    return static_cast<char*>(memory) + page;
  }

  void start(Slot& slot) {
    const Config& config = machine.config;
    const unsigned first = order_[next_++] * config.cluster_blocks();
    slot.cluster = std::make_unique<Cluster>();
    Cluster& cluster = *slot.cluster;
    cluster.domain = unsigned(machine.domains.size());
    cluster.first_block = first;
    cluster.live = config.cluster_blocks() * config.threads();
    machine.domains.push_back({first, {}});
    for (unsigned rank = 0; rank < config.cluster_blocks(); ++rank) {
      slot.blocks.push_back(std::make_unique<Block>());
      start_block(slot, *slot.blocks.back(), rank);
      cluster.blocks.push_back(slot.blocks.back().get());
    }
    resident_clusters.push_back(&cluster);
    for (Block* block : cluster.blocks)
      for (Fiber& fiber : block->fibers) scheduler.make_ready(&fiber);
  }

  static void start_block(Slot& slot, Block& block, unsigned rank) {
    const Config& config = machine.config;
    const unsigned threads = config.threads();
    block.index = machine.block_coordinates(slot.cluster->first_block + rank);
    block.rank = rank;
    block.cluster = slot.cluster.get();
    block.shared = slot.shared[rank];
    block.shared->domain = slot.cluster->domain;
    block.shared->name = "the shared memory of block " + describe(block.index);
    std::memset(reinterpret_cast<void*>(block.shared->begin), 0xFF, block.shared->bytes);
    block.live = threads;
    block.fibers = std::vector<Fiber>(threads);
    block.waves = std::vector<Wave>((threads + config.wave_size - 1) / config.wave_size);
    block.nvidia.warpgroups = std::vector<nvidia::Warpgroup>(threads / nvidia::kWarpgroupThreads + 1);
    for (unsigned i = 0; i < threads; ++i) {
      Fiber& fiber = block.fibers[i];
      fiber.stack = slot.stacks[rank * threads + i];
      fiber.block = &block;
      fiber.wave = &block.waves[i / config.wave_size];
      fiber.linear = i;
      fiber.lane = i % config.wave_size;
      fiber.index = {i % config.block.x, i / config.block.x % config.block.y, i / config.block.x / config.block.y};
      fiber.agent.component = rank * threads + i;
      fiber.nvidia.registers = config.entry_registers;
      fiber.wave->lanes.push_back(&fiber);
      fiber.wave->live |= std::uint64_t(1) << fiber.lane;
      prepare_context(fiber.context, fiber.stack, Scheduler::kStackBytes, enter_kernel);
    }
  }

  static void retire(Slot& slot) {
    for (const auto& block : slot.blocks)
      for (const auto& [offset, barrier] : block->nvidia.barriers)
        if (!barrier->landed.empty())
          stop_with_report("barrier-misuse",
                           "block " + describe(block->index) + " has ended while the TMA load at {0} is under way",
                           {Site::of_line(barrier->copy_line)});
    std::erase(resident_clusters, slot.cluster.get());
    slot.blocks.clear();
    slot.cluster.reset();
  }

  std::vector<Slot> slots_;
  std::vector<unsigned> order_;
  unsigned clusters_ = 0, next_ = 0;
};

}  // namespace emulator
