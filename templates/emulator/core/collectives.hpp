// Barriers of a block and collectives of a wave.
#pragma once

#include "scheduler.hpp"

namespace emulator {

// ---- Barriers ---------------------------------------------------------------------------------------------------

inline void open_barrier(ThreadBarrier& barrier) {
  const Knowledge knowledge = barrier.gathering.publish();
  for (Fiber* fiber : barrier.waiting) {
    fiber->agent.learn(knowledge, machine.join);
    scheduler.make_ready(fiber);
  }
  barrier.waiting.clear();
  barrier.arrived = 0;
  barrier.expected = 0;
}

// The running thread comes to a barrier of `expected` threads and waits for the others.
inline void wait_at_barrier(ThreadBarrier& barrier, unsigned expected, const char* what, int line) {
  Fiber* self = machine.current;
  if (barrier.arrived == 0) barrier.first_line = line;
  barrier.expected = expected;
  barrier.gathering.add(self->agent);
  ++barrier.arrived;
  if (barrier.arrived >= expected) {
    barrier.waiting.push_back(self);
    open_barrier(barrier);
    scheduler.wait(Wait());  // ready already: the schedule says who goes first
    return;
  }
  barrier.waiting.push_back(self);
  scheduler.wait({what, line, nullptr, nullptr});
}

void synchronize_block(int line) {
  Block& block = *machine.current->block;
  wait_at_barrier(block.barriers[0], block.live, "the block's barrier", line);
}

// ---- Waves ------------------------------------------------------------------------------------------------------

inline std::string lanes_text(std::uint64_t mask) {
  std::vector<unsigned> lanes;
  for (unsigned lane = 0; lane < 64; ++lane)
    if (mask >> lane & 1) lanes.push_back(lane);
  return describe_ranges(lanes);
}

inline void complete_wave_gathering(Wave& wave, std::size_t position) {
  const WaveGathering gathering = wave.open[position];
  wave.open.erase(wave.open.begin() + long(position));
  gathering.execute(wave, gathering.arrived);
  for (Fiber* fiber : wave.lanes)
    if (gathering.arrived >> fiber->lane & 1) scheduler.make_ready(fiber);
}

[[noreturn]] inline void report_absent_lanes(const char* name, std::uint64_t absent, int line) {
  report_misuse("divergence",
                std::string(name) + " needs the whole wave, but lanes " + lanes_text(absent) + " have left the kernel",
                line);
}

// The running lane comes to a collective of the lanes in `mask`; `execute` runs once, when all have come, with each
// lane's argument in place. An aligned operation wants every lane of the wave at the same instruction.
inline void wave_collective(const char* name, std::uint64_t mask, bool aligned, void* argument, int line,
                            void (*execute)(Wave& wave, std::uint64_t lanes)) {
  Fiber* self = machine.current;
  Wave& wave = *self->wave;
  const std::uint64_t bit = std::uint64_t(1) << self->lane;
  if ((mask & bit) == 0)
    report_misuse("divergence", std::string(name) + " with a mask that leaves the calling lane out", line);
  const std::uint64_t whole = wave.lanes.size() == 64 ? ~std::uint64_t(0) : (std::uint64_t(1) << wave.lanes.size()) - 1;
  if (aligned && wave.live != whole) report_absent_lanes(name, whole & ~wave.live, line);
  self->argument = argument;
  std::size_t position = 0;
  while (position < wave.open.size() && (wave.open[position].mask & bit) == 0) ++position;
  if (position == wave.open.size()) {
    wave.open.push_back({name, line, mask, 0, aligned, execute});
  } else {
    const WaveGathering& other = wave.open[position];
    if (other.execute != execute || other.mask != mask || (aligned && other.line != line))
      stop_with_report("divergence",
                       "lane " + std::to_string(self->lane) + " comes to " + name + " at {0} while lanes " +
                           lanes_text(other.arrived) + " of its wave wait for it in " + other.name + " at {1}",
                       {Site::of_line(line), Site::of_line(other.line)});
  }
  wave.open[position].arrived |= bit;
  if (wave.open[position].arrived == (mask & wave.live)) complete_wave_gathering(wave, position);
  scheduler.wait({name, line, nullptr, nullptr});
}

// A lane has left: collectives that waited for it only can go on.
inline void lane_left(Fiber& fiber) {
  Wave& wave = *fiber.wave;
  wave.live &= ~(std::uint64_t(1) << fiber.lane);
  for (const WaveGathering& gathering : wave.open)
    if (gathering.aligned) report_absent_lanes(gathering.name, std::uint64_t(1) << fiber.lane, gathering.line);
  for (std::size_t i = 0; i < wave.open.size();) {
    if (wave.open[i].arrived == (wave.open[i].mask & wave.live))
      complete_wave_gathering(wave, i);
    else
      ++i;
  }
}

template <class Argument>
Argument& argument_of(const Wave& wave, unsigned lane) {
  return *static_cast<Argument*>(wave.lanes[lane]->argument);
}

void synchronize_wave(std::uint64_t mask, int line) {
  wave_collective("__syncwarp", mask, false, nullptr, line, [](Wave& wave, std::uint64_t lanes) {
    Gathering gathering;
    for (Fiber* fiber : wave.lanes)
      if (lanes >> fiber->lane & 1) gathering.add(fiber->agent);
    const Knowledge knowledge = gathering.publish();
    for (Fiber* fiber : wave.lanes)
      if (lanes >> fiber->lane & 1) fiber->agent.learn(knowledge, machine.join);
  });
}

struct ShuffleArgument {
  std::uint64_t value, result;
  Shuffle mode;
  unsigned operand, width;
  int line;
};

// The lane that a shuffle reads (PTX ISA, shfl.sync): out of its segment of `width` lanes, its own
inline unsigned shuffle_source(unsigned lane, const ShuffleArgument& argument) {
  const unsigned first = lane / argument.width * argument.width, inside = lane - first;
  switch (argument.mode) {
    case Shuffle::kIndex:
      return first + argument.operand % argument.width;
    case Shuffle::kUp:
      return inside >= argument.operand ? lane - argument.operand : lane;
    case Shuffle::kDown:
      return inside + argument.operand < argument.width ? lane + argument.operand : lane;
    case Shuffle::kXor: {
      const unsigned source = inside ^ argument.operand;
      return source < argument.width ? first + source : lane;
    }
  }
  return lane;
}

std::uint64_t shuffle(std::uint64_t bits, Shuffle mode, unsigned operand, unsigned width, std::uint64_t mask,
                      int line) {
  ShuffleArgument argument = {bits, 0, mode, operand, width, line};
  wave_collective("a shuffle", mask, false, &argument, line, [](Wave& wave, std::uint64_t lanes) {
    for (unsigned lane = 0; lane < wave.lanes.size(); ++lane) {
      if ((lanes >> lane & 1) == 0) continue;
      ShuffleArgument& own = argument_of<ShuffleArgument>(wave, lane);
      const unsigned source = shuffle_source(lane, own);
      if (source >= wave.lanes.size() || (lanes >> source & 1) == 0)
        report_misuse("divergence", "a shuffle reads lane " + std::to_string(source) + ", which takes no part in it",
                      own.line);
      own.result = argument_of<ShuffleArgument>(wave, source).value;
    }
  });
  return argument.result;
}

struct BallotArgument {
  bool predicate;
  std::uint64_t result;
};

std::uint64_t ballot(bool predicate, std::uint64_t mask, int line) {
  BallotArgument argument = {predicate, 0};
  wave_collective("a vote", mask, false, &argument, line, [](Wave& wave, std::uint64_t lanes) {
    std::uint64_t votes = 0;
    for (unsigned lane = 0; lane < wave.lanes.size(); ++lane)
      if ((lanes >> lane & 1) && argument_of<BallotArgument>(wave, lane).predicate) votes |= std::uint64_t(1) << lane;
    for (unsigned lane = 0; lane < wave.lanes.size(); ++lane)
      if (lanes >> lane & 1) argument_of<BallotArgument>(wave, lane).result = votes;
  });
  return argument.result;
}

struct ExchangeArgument {
  std::uint64_t value;
  std::uint64_t* all;
};

void exchange(std::uint64_t value, std::uint64_t (&all)[64], std::uint64_t mask, int line) {
  ExchangeArgument argument = {value, all};
  wave_collective("a collective of the wave", mask, false, &argument, line, [](Wave& wave, std::uint64_t lanes) {
    std::uint64_t values[64] = {};
    for (unsigned lane = 0; lane < wave.lanes.size(); ++lane)
      if (lanes >> lane & 1) values[lane] = argument_of<ExchangeArgument>(wave, lane).value;
    for (unsigned lane = 0; lane < wave.lanes.size(); ++lane)
      if (lanes >> lane & 1) std::memcpy(argument_of<ExchangeArgument>(wave, lane).all, values, sizeof values);
  });
}

}  // namespace emulator
