// wgmma: asynchronous matrix products of a warpgroup, operands in shared memory or registers (PTX ISA 9.7.15).
#pragma once

#include <algorithm>

#include "matrices.hpp"

namespace emulator::nvidia {

constexpr unsigned kWarpgroupThreads = 128;
constexpr int kRows = 64, kDepth = 16, kMaxColumns = 256;

// The 64-bit matrix descriptor (PTX ISA 9.7.15.5.1.2.2); offsets in bytes
struct Descriptor {
  std::uint32_t address, leading_offset, stride_offset;
  unsigned span;  // bytes of a row of the swizzle atom; 16 without swizzle

  Descriptor(u64 bits, const char* operand, int line)
      : address(std::uint32_t(bits & 0x3FFF) << 4),
        leading_offset(std::uint32_t(bits >> 16 & 0x3FFF) << 4),
        stride_offset(std::uint32_t(bits >> 32 & 0x3FFF) << 4),
        span(kSpans[bits >> 62]) {
    constexpr u64 kBaseOffset = u64(7) << 49;
    constexpr u64 kFields = 0x3FFF | u64(0x3FFF) << 16 | u64(0x3FFF) << 32 | kBaseOffset | u64(3) << 62;
    if ((bits & ~kFields) != 0)
      report_misuse("misuse", std::string("the descriptor of ") + operand + " has bits that mean nothing", line);
    if ((bits & kBaseOffset) != 0)
      report_misuse("misuse",
                    std::string("the descriptor of ") + operand +
                        " has a base offset: the tile does not start where its swizzle pattern does",
                    line);
  }

  // Address of the 8 contiguous elements that hold (mn, k): eight along k if K-major, along mn if MN-major
  std::uint32_t chunk(bool mn_major, unsigned mn, unsigned k) const {
    constexpr unsigned kBytes = 2;
    const bool swizzle = span > 16;
    std::uint32_t offset;
    if (!mn_major)
      offset = mn / 8 * stride_offset + mn % 8 * span + (swizzle ? k * kBytes : k / 8 * leading_offset);
    else
      offset =
          mn / (span / kBytes) * leading_offset + k / 8 * stride_offset + k % 8 * span + mn % (span / kBytes) * kBytes;
    return swizzled(address + offset, swizzle ? span : 0);
  }

 private:
  static constexpr unsigned kSpans[4] = {16, 128, 64, 32};
};

// Calls function(mn, k, address in the shared window) for every chunk of an operand of `extent` rows or columns.
template <class Function>
void for_each_operand_chunk(const Descriptor& descriptor, bool mn_major, unsigned extent, Function function) {
  const unsigned mn_step = mn_major ? 8 : 1, k_step = mn_major ? 1 : 8;
  for (unsigned mn = 0; mn < extent; mn += mn_step)
    for (unsigned k = 0; k < unsigned(kDepth); k += k_step) function(mn, k, descriptor.chunk(mn_major, mn, k));
}

// Element (mn, k) goes to values[mn * mn_stride + k * k_stride].
inline void load_operand(const Descriptor& descriptor, bool mn_major, unsigned extent, std::uintptr_t shared,
                         const float* table, float* values, unsigned mn_stride, unsigned k_stride) {
  const unsigned stride = mn_major ? mn_stride : k_stride;
  for_each_operand_chunk(descriptor, mn_major, extent, [&](unsigned mn, unsigned k, std::uint32_t address) {
    std::uint16_t chunk[8];
    std::memcpy(chunk, reinterpret_cast<const char*>(shared + address - kReservedShared), sizeof chunk);
    float* target = values + mn * mn_stride + k * k_stride;
    for (unsigned i = 0; i < 8; ++i) target[i * stride] = table[chunk[i]];
  });
}

// Register r of thread t of the warpgroup is this element of a 64-row matrix (PTX ISA 9.7.15.5.1.1).
inline unsigned accumulator_row(unsigned thread, unsigned r) {
  return thread / 32 * 16 + thread % 32 / 4 + r / 2 % 2 * 8;
}
inline unsigned accumulator_column(unsigned thread, unsigned r) { return r / 4 * 8 + thread % 4 * 2 + r % 2; }

inline Warpgroup& warpgroup_of(const Fiber& fiber) {
  return fiber.block->nvidia.warpgroups[fiber.linear / kWarpgroupThreads];
}

struct WgmmaArgument {
  Wgmma shape;
  float* d;
  u64 a;
  const u32* a_registers;
  u64 b;
  bool accumulate;
  int line;
};

inline const WgmmaArgument& wgmma_argument(const Fiber* fiber) { return *static_cast<WgmmaArgument*>(fiber->argument); }

inline void check_uniform(const Warpgroup& group) {
  const WgmmaArgument& first = wgmma_argument(group.arrived[0]);
  for (const Fiber* fiber : group.arrived) {
    const WgmmaArgument& own = wgmma_argument(fiber);
    if (own.line != first.line || own.b != first.b || own.accumulate != first.accumulate ||
        (first.a_registers == nullptr && own.a != first.a))
      stop_with_report("divergence",
                       "threads " + std::to_string(fiber->linear) + " and " + std::to_string(group.arrived[0]->linear) +
                           " of a warpgroup give different operands to one wgmma, at {0} and {1}",
                       {Site::of_line(own.line), Site::of_line(first.line)});
    if (!fiber->nvidia.fenced)
      report_misuse("missing-fence",
                    "thread " + std::to_string(fiber->linear) +
                        " issues wgmma on registers that plain code used since its last warpgroup_arrive",
                    own.line);
  }
}

// The reads of the tensor core happen for all four warps: what any of them has not seen is a race.
inline void check_operand_reads(const Warpgroup& group, std::uint32_t number) {
  const WgmmaArgument& argument = wgmma_argument(group.arrived[0]);
  std::vector<Knowledge> distinct;
  for (const Fiber* fiber : group.arrived) {
    const Knowledge& known = fiber->agent.knowledge;
    if (distinct.empty() || distinct.back().seen != known.seen || distinct.back().fenced != known.fenced)
      distinct.push_back(known);
  }
  const Block& block = *group.arrived[0]->block;
  const Accessor accessor = {distinct.data(),
                             int(distinct.size()),
                             block.cluster->domain,
                             group.component,
                             number,
                             true,
                             Site::of_line(argument.line)};
  const auto touch = [&](unsigned, unsigned, std::uint32_t address) {
    machine.memory.touch(block.shared->begin + address - kReservedShared, 16, Touch::kRead, accessor);
  };
  if (argument.a_registers == nullptr)
    for_each_operand_chunk(Descriptor(argument.a, "A", argument.line), argument.shape.a_mn_major, kRows, touch);
  for_each_operand_chunk(Descriptor(argument.b, "B", argument.line), argument.shape.b_mn_major,
                         unsigned(argument.shape.columns), touch);
}

// The accumulators of the operation as a matrix; taken from the registers unless a chain of operations has them already
inline Accumulators& take_accumulators(Warpgroup& group, std::uint32_t number) {
  const WgmmaArgument& argument = wgmma_argument(group.arrived[0]);
  const unsigned registers = unsigned(argument.shape.columns) / 2;
  for (const auto& known : group.accumulators) {
    if (known->registers[0] != argument.d) continue;
    if (known->returned != 0 || known->columns != argument.shape.columns)
      report_misuse("barrier-misuse", "wgmma uses accumulators of which a part has not been waited for", argument.line);
    known->last_operation = number;
    return *known;
  }
  group.accumulators.push_back(std::make_unique<Accumulators>());
  Accumulators& taken = *group.accumulators.back();
  taken.columns = argument.shape.columns;
  taken.last_operation = number;
  taken.tile.resize(std::size_t(kRows) * unsigned(taken.columns));
  for (unsigned thread = 0; thread < kWarpgroupThreads; ++thread) {
    taken.registers[thread] = wgmma_argument(group.arrived[thread]).d;
    for (unsigned r = 0; r < registers; ++r)
      taken.tile[accumulator_row(thread, r) * unsigned(taken.columns) + accumulator_column(thread, r)] =
          taken.registers[thread][r];
    std::memset(taken.registers[thread], 0xFF, registers * sizeof(float));
  }
  return taken;
}

inline void guard(ThreadState& state, const void* registers, std::size_t bytes, std::uint32_t number,
                  bool reads_allowed, int line) {
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(registers);
  for (GuardedRegisters& known : state.guarded) {
    const bool same = known.begin == begin && known.end == begin + bytes;
    const bool continued =
        reads_allowed && known.reads_allowed && known.end == begin && known.last_operation > state.committed_operation;
    if (!same && !continued) continue;
    known.end = begin + bytes;
    known.last_operation = number;
    return;
  }
  state.guarded.push_back({begin, begin + bytes, number, reads_allowed, Site::of_line(line)});
}

inline void guard_registers(const Warpgroup& group, std::uint32_t number) {
  for (Fiber* fiber : group.arrived) {
    const WgmmaArgument& argument = wgmma_argument(fiber);
    const std::size_t bytes = unsigned(argument.shape.columns) / 2 * sizeof(float);
    guard(fiber->nvidia, argument.d, bytes, number, false, argument.line);
    if (argument.a_registers != nullptr)
      guard(fiber->nvidia, argument.a_registers, 4 * sizeof(u32), number, true, argument.line);
    auto& known = fiber->nvidia.accumulators;
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(argument.d);
    if (std::find(known.begin(), known.end(), std::pair(begin, begin + bytes)) == known.end())
      known.push_back({begin, begin + bytes});
  }
}

inline void multiply_tiles(const float* a, const float* b, float* d, int columns) {
  for (int i = 0; i < kRows; ++i) {
    for (int k = 0; k < kDepth; ++k) {
      const float factor = a[i * kDepth + k];
      for (int j = 0; j < columns; ++j) d[i * columns + j] += factor * b[k * columns + j];
    }
  }
}

// A from the registers of the warpgroup, as they are at the issue (PTX ISA 9.7.15.5.1.1: as for mma.m16n8k16)
inline std::vector<float> a_from_registers(const Warpgroup& group, const float* table) {
  std::vector<float> a(kRows * kDepth);
  for (unsigned thread = 0; thread < kWarpgroupThreads; ++thread) {
    const u32* registers = wgmma_argument(group.arrived[thread]).a_registers;
    const unsigned row = thread / 32 * 16 + thread % 32 / 4, column = 2 * (thread % 4);
    for (unsigned r = 0; r < 4; ++r) {
      float* target = &a[(row + 8 * (r % 2)) * unsigned(kDepth) + column + 8 * (r / 2)];
      target[0] = table[registers[r] & 0xFFFF];
      target[1] = table[registers[r] >> 16];
    }
  }
  return a;
}

inline Work product(const Warpgroup& group, Accumulators& accumulators) {
  const WgmmaArgument argument = wgmma_argument(group.arrived[0]);
  const float* table = float_table(argument.shape.type);
  std::vector<float> a_registers;
  if (argument.a_registers != nullptr) a_registers = a_from_registers(group, table);
  const std::uintptr_t shared = group.arrived[0]->block->shared->begin;
  return [argument, table, shared, &accumulators, a_registers = std::move(a_registers)] {
    static float a[kRows * kDepth], b[kDepth * kMaxColumns];
    const unsigned columns = unsigned(argument.shape.columns);
    if (argument.a_registers == nullptr)
      load_operand(Descriptor(argument.a, "A", argument.line), argument.shape.a_mn_major, kRows, shared, table, a,
                   kDepth, 1);
    load_operand(Descriptor(argument.b, "B", argument.line), argument.shape.b_mn_major, columns, shared, table, b, 1,
                 columns);
    if (!argument.accumulate) std::fill(accumulators.tile.begin(), accumulators.tile.end(), 0.0f);
    multiply_tiles(argument.a_registers == nullptr ? a : a_registers.data(), b, accumulators.tile.data(), int(columns));
  };
}

inline void issue(Warpgroup& group) {
  std::sort(group.arrived.begin(), group.arrived.end(),
            [](const Fiber* a, const Fiber* b) { return a->linear < b->linear; });
  check_uniform(group);
  if (group.component == 0)
    group.component = machine.add_stream(group.arrived[0]->block->cluster->domain, group.arrived[0]->block->rank,
                                         "wgmma of warpgroup", group.arrived[0]->linear / kWarpgroupThreads);
  const std::uint32_t number = ++group.issued;
  check_operand_reads(group, number);
  Accumulators& accumulators = take_accumulators(group, number);
  guard_registers(group, number);
  Work work = product(group, accumulators);
  if (group.pending.empty() && machine.lands_at_once()) {
    work();
    group.completed = number;
  } else {
    group.pending.push_back({number, std::move(work)});
  }
}

void wgmma(const Wgmma& shape, float* d, u64 a, const u32* a_registers, u64 b, bool accumulate, int line) {
  Fiber& self = *machine.current;
  Warpgroup& group = warpgroup_of(self);
  if (self.block->fibers.size() < (self.linear / kWarpgroupThreads + 1) * kWarpgroupThreads)
    report_misuse("divergence", "wgmma needs a whole warpgroup of 128 threads", line);
  WgmmaArgument argument = {shape, d, a, a_registers, b, accumulate, line};
  self.argument = &argument;
  group.arrived.push_back(&self);
  if (group.arrived.size() == kWarpgroupThreads) {
    issue(group);
    for (Fiber* fiber : group.arrived) scheduler.make_ready(fiber);
    group.arrived.clear();
  }
  scheduler.wait({"wgmma", line, nullptr, nullptr});
}

void warpgroup_arrive(int) { machine.current->nvidia.fenced = true; }

void warpgroup_commit(int) {
  Fiber& self = *machine.current;
  self.nvidia.committed_operation = warpgroup_of(self).issued;
  self.nvidia.groups.push_back(self.nvidia.committed_operation);
}

inline void return_accumulators(Warpgroup& group, unsigned thread, std::uint32_t until) {
  for (std::size_t i = 0; i < group.accumulators.size();) {
    Accumulators& known = *group.accumulators[i];
    if (known.last_operation <= until && !known.has_returned[thread]) {
      for (unsigned r = 0; r < unsigned(known.columns) / 2; ++r)
        known.registers[thread][r] =
            known.tile[accumulator_row(thread, r) * unsigned(known.columns) + accumulator_column(thread, r)];
      known.has_returned[thread] = true;
      if (++known.returned == kWarpgroupThreads) {
        group.accumulators.erase(group.accumulators.begin() + long(i));
        continue;
      }
    }
    ++i;
  }
}

void warpgroup_wait(int pending, int) {
  Fiber& self = *machine.current;
  ThreadState& state = self.nvidia;
  if (state.groups.size() <= std::size_t(pending)) return;
  const std::size_t finished = state.groups.size() - std::size_t(pending);
  const std::uint32_t until = state.groups[finished - 1];
  state.groups.erase(state.groups.begin(), state.groups.begin() + long(finished));
  if (until == 0) return;
  Warpgroup& group = warpgroup_of(self);
  while (!group.pending.empty() && group.pending.front().number <= until) {
    group.pending.front().work();
    group.completed = group.pending.front().number;
    group.pending.pop_front();
  }
  self.agent.learn(group.component, until, machine.join);
  return_accumulators(group, self.linear % kWarpgroupThreads, until);
  std::erase_if(state.guarded, [=](const GuardedRegisters& known) { return known.last_operation <= until; });
}

// A plain access of the running thread to its own registers (variables on its stack)
inline void check_register_access(Fiber& fiber, std::uintptr_t address, std::size_t bytes, bool write, Site site) {
  ThreadState& state = fiber.nvidia;
  for (const GuardedRegisters& known : state.guarded) {
    if (address >= known.end || address + bytes <= known.begin || (known.reads_allowed && !write)) continue;
    stop_with_report("race",
                     "thread " + std::to_string(fiber.linear) + " of block " + describe(fiber.block->index) +
                         (write ? " writes" : " reads") +
                         " at {0} registers that the wgmma at {1} still uses; warpgroup_wait must come between the two",
                     {site, known.site});
  }
  // Reads count as well (PTX ISA 9.7.15.7.1, "wgmma.fence": between a register access and a wgmma on the same registers)
  if (!state.fenced) return;
  for (const auto& [begin, end] : state.accumulators)
    if (address < end && address + bytes > begin) state.fenced = false;
}

}  // namespace emulator::nvidia
