// mbarrier objects: phases, arrivals, bytes of asynchronous copies (PTX ISA 9.7.13.15), and clusters (9.7.13.3).
#pragma once

#include "../../interface_nvidia.hpp"
#include "../collectives.hpp"

namespace emulator::nvidia {

constexpr std::uint32_t kReservedShared = 1024;  // bytes that the system keeps at the start of the window on sm_90
constexpr std::int64_t kMaxTransactions = (1 << 20) - 1;

// The offset of an address in the shared memory of the running thread's block; reports one outside.
inline std::uint32_t shared_offset(const void* pointer, const char* what, int line) {
  const Region& shared = *machine.current->block->shared;
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(pointer);
  if (address < shared.begin || address >= shared.end())
    report_misuse("out-of-bounds", std::string(what) + " is not in the block's shared memory", line);
  return std::uint32_t(address - shared.begin);
}

inline std::string describe_barrier(const Mbarrier& barrier) {
  return "mbarrier at byte " + with_commas(barrier.offset) + " of shared memory";
}

inline std::string describe_wait(const void* object) {
  const Mbarrier& barrier = *static_cast<const Mbarrier*>(object);
  return describe_barrier(barrier) + ", phase " + std::to_string(barrier.phase) + ": " +
         std::to_string(barrier.pending) + " of " + std::to_string(barrier.expected) + " arrivals and " +
         with_commas(std::uint64_t(std::max<std::int64_t>(barrier.transactions, 0))) + " bytes are missing" +
         (barrier.transactions < 0 ? ", " + with_commas(std::uint64_t(-barrier.transactions)) + " bytes too many" : "");
}

// The barrier object at an offset in a block's shared memory; whoever uses it must have seen its initialisation.
inline Mbarrier& find_barrier(Block& block, std::uint32_t offset, int line) {
  const auto found = block.nvidia.barriers.find(offset);
  if (found == block.nvidia.barriers.end())
    report_misuse("barrier-misuse",
                  "no mbarrier has been initialised at byte " + with_commas(offset) + " of shared memory", line);
  machine.memory.expect_seen(block.shared->begin + offset, accessor_of(*machine.current, Site::of_line(line)));
  return *found->second;
}

inline Mbarrier& barrier_of(u64& barrier, int line) {
  return find_barrier(*machine.current->block, shared_offset(&barrier, "an mbarrier", line), line);
}

inline void end_phase_if_complete(Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.transactions != 0) return;
  if (barrier.component != 0) barrier.gathering.add(barrier.component, barrier.landed_before);
  barrier.published = barrier.gathering.publish();
  ++barrier.phase;
  barrier.pending = barrier.expected;
  std::vector<std::pair<Fiber*, std::uint32_t>> waiting;
  waiting.swap(barrier.waiting);
  for (const auto& [fiber, parity] : waiting) {
    if ((barrier.phase & 1) == parity) {
      barrier.waiting.push_back({fiber, parity});
    } else {
      fiber->agent.learn(barrier.published, machine.join);
      scheduler.make_ready(fiber);
    }
  }
}

inline void arrive(Mbarrier& barrier, std::int64_t bytes, int line) {
  if (barrier.pending == 0)
    report_misuse("barrier-misuse",
                  "one arrival too many at the " + describe_barrier(barrier) + ", which expects " +
                      std::to_string(barrier.expected) + " a phase",
                  line);
  barrier.transactions += bytes;
  if (barrier.transactions > kMaxTransactions)
    report_misuse("barrier-misuse",
                  "the " + describe_barrier(barrier) + " expects more than " +
                      with_commas(std::uint64_t(kMaxTransactions)) + " bytes",
                  line);
  barrier.gathering.add(machine.current->agent);
  --barrier.pending;
  end_phase_if_complete(barrier);
}

// A copy that will complete on the barrier gets the next time of the barrier's stream.
inline Time issue_copy(Mbarrier& barrier, unsigned domain) {
  if (barrier.component == 0)
    barrier.component =
        machine.add_stream(domain, barrier.rank, "a TMA load that completes on the mbarrier at byte", barrier.offset);
  barrier.landed.push_back(false);
  return ++barrier.issued;
}

inline void complete_copy(Mbarrier& barrier, Time number, std::int64_t bytes) {
  barrier.landed[number - barrier.landed_before - 1] = true;
  while (!barrier.landed.empty() && barrier.landed.front()) {
    barrier.landed.pop_front();
    ++barrier.landed_before;
  }
  barrier.transactions -= bytes;
  end_phase_if_complete(barrier);
}

void mbarrier_init(u64& object, int arrivals, int line) {
  Fiber& self = *machine.current;
  const std::uint32_t offset = shared_offset(&object, "an mbarrier", line);
  if (offset % sizeof(u64) != 0) report_misuse("misaligned", "an mbarrier wants 8-byte alignment", line);
  if (arrivals < 1 || arrivals > kMaxTransactions)
    report_misuse("barrier-misuse", "an mbarrier cannot expect " + std::to_string(arrivals) + " arrivals", line);
  machine.memory.touch(self.block->shared->begin + offset, sizeof(u64), Touch::kWrite,
                       accessor_of(self, Site::of_line(line)));
  std::unique_ptr<Mbarrier>& barrier = self.block->nvidia.barriers[offset];
  if (barrier && !barrier->waiting.empty())
    report_misuse("barrier-misuse", "initialises the " + describe_barrier(*barrier) + " while threads wait at it",
                  line);
  barrier = std::make_unique<Mbarrier>();
  barrier->offset = offset;
  barrier->rank = self.block->rank;
  barrier->expected = barrier->pending = arrivals;
  barrier->initialiser = &self;
  barrier->line = line;
}

void mbarrier_arrive(u64& object, int line) { arrive(barrier_of(object, line), 0, line); }

void mbarrier_arrive_expect_tx(u64& object, u32 bytes, int line) { arrive(barrier_of(object, line), bytes, line); }

// A block of the cluster, by rank
inline Block& peer_block(u32 rank, int line) {
  Cluster& cluster = *machine.current->block->cluster;
  if (rank >= cluster.blocks.size())
    report_misuse(
        "out-of-bounds",
        "block " + std::to_string(rank) + " is not in the cluster of " + std::to_string(cluster.blocks.size()), line);
  Block& block = *cluster.blocks[rank];
  if (block.live == 0)
    report_misuse("barrier-misuse",
                  "block " + std::to_string(rank) + " of the cluster has ended, and its shared memory with it", line);
  return block;
}

inline void require_fenced(const Mbarrier& barrier, const char* use, int line) {
  if (barrier.fenced) return;
  stop_with_report("missing-fence",
                   "the " + describe_barrier(barrier) + ", initialised at {1}, is used by " + use +
                       " at {0}; fence_barrier_init must follow the initialisation",
                   {Site::of_line(line), Site::of_line(barrier.line)});
}

void mbarrier_arrive_cluster(u64& object, u32 rank, int line) {
  Block& block = peer_block(rank, line);
  Mbarrier& barrier = find_barrier(block, shared_offset(&object, "an mbarrier", line), line);
  if (&block != machine.current->block) require_fenced(barrier, "another block of the cluster", line);
  arrive(barrier, 0, line);
}

void mbarrier_wait(u64& object, u32 parity, int line) {
  Fiber& self = *machine.current;
  Mbarrier& barrier = barrier_of(object, line);
  if (parity > 1) report_misuse("barrier-misuse", "a phase parity is 0 or 1, not " + std::to_string(parity), line);
  if ((barrier.phase & 1) != parity) {
    self.agent.learn(barrier.published, machine.join);
    return;
  }
  barrier.waiting.push_back({&self, parity});
  scheduler.wait({"mbarrier_wait", line, describe_wait, &barrier});
}

inline void fence_barriers(Fiber& fiber) {
  for (const auto& [offset, barrier] : fiber.block->nvidia.barriers)
    if (barrier->initialiser == &fiber) barrier->fenced = true;
}

void fence_barrier_init(int) { fence_barriers(*machine.current); }

void fence_proxy_async(int) {
  machine.current->agent.fence_proxy();
  fence_barriers(*machine.current);
}

void fence_device() {
  Agent& agent = machine.current->agent;
  const Snapshot& seen = agent.knowledge.seen;
  agent.fence_device(machine.current->block->cluster->domain, seen ? *seen : Times());
}

u32 cluster_rank() { return machine.current->block->rank; }

void cluster_sync(int line) {
  Cluster& cluster = *machine.current->block->cluster;
  wait_at_barrier(cluster.barrier, cluster.live, "cluster_sync", line);
}

// ---- Named barriers (PTX ISA 9.7.13.1) --------------------------------------------------------------------------

inline ThreadBarrier& named_barrier(int id, int threads, int line) {
  Fiber& self = *machine.current;
  if (id < 0 || unsigned(id) >= Block::kBarriers)
    report_misuse("barrier-misuse", "there is no barrier " + std::to_string(id) + ": a block has 16", line);
  if (threads <= 0 || unsigned(threads) % machine.config.wave_size != 0)
    report_misuse("barrier-misuse", "a barrier takes whole warps, not " + std::to_string(threads) + " threads", line);
  ThreadBarrier& barrier = self.block->barriers[id];
  if (barrier.arrived > 0 && barrier.expected != unsigned(threads))
    stop_with_report("barrier-misuse",
                     "barrier " + std::to_string(id) + " is used for " + std::to_string(threads) +
                         " threads at {0} while " + std::to_string(barrier.expected) + " are expected since {1}",
                     {Site::of_line(line), Site::of_line(barrier.first_line)});
  return barrier;
}

void named_barrier_sync(int id, int threads, int line) {
  wait_at_barrier(named_barrier(id, threads, line), unsigned(threads), "named_barrier_sync", line);
}

void named_barrier_arrive(int id, int threads, int line) {
  ThreadBarrier& barrier = named_barrier(id, threads, line);
  if (barrier.arrived == 0) barrier.first_line = line;
  barrier.expected = unsigned(threads);
  barrier.gathering.add(machine.current->agent);
  if (++barrier.arrived >= barrier.expected) open_barrier(barrier);
}

// ---- setmaxnreg (PTX ISA 9.7.19.5) ------------------------------------------------------------------------------

inline void check_register_count(int registers, int line) {
  if (registers < 24 || registers > 256 || registers % 8 != 0)
    report_misuse("register-budget",
                  "setmaxnreg takes 24 to 256 registers in steps of 8, not " + std::to_string(registers), line);
}

inline std::string describe_registers(const void* object) {
  return with_commas(std::uint64_t(static_cast<const BlockState*>(object)->free_registers)) +
         " registers of the block are free";
}

void register_release(int registers, int line) {
  Fiber& self = *machine.current;
  check_register_count(registers, line);
  if (unsigned(registers) > self.nvidia.registers)
    report_misuse("register-budget",
                  "gives registers back to reach " + std::to_string(registers) + " but owns " +
                      std::to_string(self.nvidia.registers),
                  line);
  BlockState& state = self.block->nvidia;
  state.free_registers += long(self.nvidia.registers) - registers;
  self.nvidia.registers = unsigned(registers);
  std::vector<Fiber*> waiting;
  waiting.swap(state.waiting_for_registers);
  for (Fiber* fiber : waiting) scheduler.make_ready(fiber);
}

void register_acquire(int registers, int line) {
  Fiber& self = *machine.current;
  check_register_count(registers, line);
  if (unsigned(registers) < self.nvidia.registers)
    report_misuse("register-budget",
                  "asks for " + std::to_string(registers) + " registers but owns " +
                      std::to_string(self.nvidia.registers) + " already",
                  line);
  BlockState& state = self.block->nvidia;
  const long wanted = registers - long(self.nvidia.registers);
  while (state.free_registers < wanted) {
    state.waiting_for_registers.push_back(&self);
    scheduler.wait({"register_acquire", line, describe_registers, &state});
  }
  state.free_registers -= wanted;
  self.nvidia.registers = unsigned(registers);
}

}  // namespace emulator::nvidia
