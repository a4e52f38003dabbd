// The emulated machine: threads as fibers, waves, blocks, clusters, and what the launch asked for.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../interface.hpp"
#include "clocks.hpp"
#include "context.hpp"
#include "memory.hpp"
#include "nvidia/state.hpp"

namespace emulator {

enum class Schedule { kFifo, kReverse, kRandom };
enum class Asynchronous { kEager, kLazy, kRandom };

struct Config {
  Schedule schedule = Schedule::kFifo;
  Asynchronous asynchronous = Asynchronous::kEager;
  std::uint64_t seed = 0;
  unsigned multiprocessors = 3;  // blocks resident at a time
  Index3 grid = {1, 1, 1}, block = {1, 1, 1}, cluster = {1, 1, 1};
  std::size_t shared_bytes = 0;
  unsigned entry_registers = 0;
  unsigned wave_size = 32;

  unsigned threads() const { return block.x * block.y * block.z; }
  unsigned cluster_blocks() const { return cluster.x * cluster.y * cluster.z; }
};

struct Block;
struct Wave;

// Why a thread does not run; `detail` says more about `object`.
struct Wait {
  const char* what = nullptr;
  int line = 0;
  std::string (*detail)(const void* object) = nullptr;
  const void* object = nullptr;
};

struct Fiber {
  Context context;
  char* stack = nullptr;
  Block* block = nullptr;
  Wave* wave = nullptr;
  unsigned linear = 0, lane = 0;
  Index3 index = {};
  bool done = false;
  Agent agent;
  Wait wait;
  void* argument = nullptr;  // of the collective that it takes part in
  std::uintptr_t atomic_begin = 0, atomic_end = 0;
  nvidia::ThreadState nvidia;
};

// Lanes that have come to one collective and wait for the others
struct WaveGathering {
  const char* name;
  int line;
  std::uint64_t mask, arrived;
  bool aligned;  // wants every lane of the wave
  void (*execute)(Wave& wave, std::uint64_t lanes);
};

struct Wave {
  std::vector<Fiber*> lanes;
  std::uint64_t live = 0;
  std::vector<WaveGathering> open;
};

// Barrier of a number of threads: __syncthreads and named barriers
struct ThreadBarrier {
  unsigned expected = 0, arrived = 0;
  int first_line = 0;
  Gathering gathering;
  std::vector<Fiber*> waiting;
};

// A stream of asynchronous work, named for reports
struct Stream {
  const char* what;
  unsigned number;
  unsigned rank;  // of its block in the cluster
};

struct Cluster {
  unsigned domain = 0;
  unsigned first_block = 0;  // in the launch's order of blocks
  unsigned live = 0;         // threads
  std::vector<Block*> blocks;
  ThreadBarrier barrier;
};

struct Block {
  static constexpr unsigned kBarriers = 16;
  Index3 index = {};
  unsigned rank = 0;  // in the cluster
  Cluster* cluster = nullptr;
  Region* shared = nullptr;
  std::vector<Fiber> fibers;
  std::vector<Wave> waves;
  unsigned live = 0;
  ThreadBarrier barriers[kBarriers];
  nvidia::BlockState nvidia;
};

// What outlives a cluster: how to name its components
struct Domain {
  unsigned first_block;
  std::vector<Stream> streams;
};

class Machine {
 public:
  Config config;
  Memory memory;
  Joiner join;
  Told told;
  Fiber* current = nullptr;
  std::vector<Domain> domains{1};  // domain 0 is nobody's
  std::vector<nvidia::TensorMap> tensor_maps;
  void* const* arguments = nullptr;

  std::uint64_t random() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_ >> 11;
  }
  void seed() { random_ = (config.seed + 1) * 0x9E3779B97F4A7C15ull; }

  // Whether asynchronous work that is issued now also happens now
  bool lands_at_once() {
    return config.asynchronous == Asynchronous::kEager ||
           (config.asynchronous == Asynchronous::kRandom && random() % 2 == 0);
  }

  Index3 block_coordinates(unsigned linear) const {
    const Index3 clusters = {config.grid.x / config.cluster.x, config.grid.y / config.cluster.y,
                             config.grid.z / config.cluster.z};
    const unsigned cluster = linear / config.cluster_blocks(), rank = linear % config.cluster_blocks();
    return {cluster % clusters.x * config.cluster.x + rank % config.cluster.x,
            cluster / clusters.x % clusters.y * config.cluster.y + rank / config.cluster.x % config.cluster.y,
            cluster / clusters.x / clusters.y * config.cluster.z + rank / config.cluster.x / config.cluster.y};
  }

  // A new component of the clocks, beside the threads of the cluster
  unsigned add_stream(unsigned domain, unsigned rank, const char* what, unsigned number) {
    std::vector<Stream>& streams = domains[domain].streams;
    streams.push_back({what, number, rank});
    const unsigned component = config.threads() * config.cluster_blocks() + unsigned(streams.size()) - 1;
    if (component > 0xFFFF) stop_with_report("resources", "a cluster has too many asynchronous streams", {});
    return component;
  }

 private:
  std::uint64_t random_ = 1;
};

inline Machine machine;

inline Accessor accessor_of(const Fiber& fiber, Site site) {
  return {
      &fiber.agent.knowledge, 1, fiber.block->cluster->domain, fiber.agent.component, fiber.agent.time, false, site};
}

inline std::string describe(Index3 index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " + std::to_string(index.z) + ")";
}

inline std::string describe_agent(Stamp stamp) {
  const Domain& domain = machine.domains[stamp.domain()];
  const unsigned threads = machine.config.threads();
  const unsigned of_threads = threads * machine.config.cluster_blocks();
  if (stamp.component() < of_threads)
    return "thread " + std::to_string(stamp.component() % threads) + " of block " +
           describe(machine.block_coordinates(domain.first_block + stamp.component() / threads));
  const Stream& stream = domain.streams[stamp.component() - of_threads];
  return std::string(stream.what) + " " + with_commas(stream.number) + " of block " +
         describe(machine.block_coordinates(domain.first_block + stream.rank));
}

[[noreturn]] inline void report_misuse(const char* kind, const std::string& message, int line) {
  const Fiber* fiber = machine.current;
  const std::string who = fiber == nullptr ? ""
                                           : "thread " + std::to_string(fiber->linear) + " of block " +
                                                 describe(fiber->block->index) + ": ";
  stop_with_report(kind, who + message, {Site::of_line(line)});
}

}  // namespace emulator
