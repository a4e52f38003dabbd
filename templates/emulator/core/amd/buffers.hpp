// Buffer instructions: range checks, and loads that land in LDS (CDNA3 ISA, "Vector Memory Operations").
#pragma once

#include <algorithm>

#include "../nvidia/copies.hpp"
#include "matrices.hpp"

namespace emulator::amd {

bool inside(const Resource& resource, std::uint32_t offset, int bytes, int line) {
  const std::uint64_t end = std::uint64_t(offset) + std::uint64_t(bytes);
  if (offset >= resource.bytes) return false;
  if (end > resource.bytes)
    report_misuse("out-of-bounds", "a buffer access of " + std::to_string(bytes) + " bytes straddles the end of its resource",
                  line);
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(resource.base) + offset;
  if (address % std::uintptr_t(std::min(bytes, 4)) != 0)
    report_misuse("misaligned", "a buffer access of " + std::to_string(bytes) + " bytes wants an address that is a multiple of " +
                                    std::to_string(std::min(bytes, 4)), line);
  return true;
}

struct LdsLoad {
  char* tile;
  Resource resource;
  std::uint32_t offset;
  int bytes, line;
};

// Each lane's loads retire in order, so that counting them lane by lane is counting them for the wave.
void load_lds(void* tile, const Resource& resource, std::uint32_t offset, int bytes, int line) {
  LdsLoad argument = {static_cast<char*>(tile), resource, offset, bytes, line};
  wave_collective("a load to LDS", kWholeWave, true, &argument, line, [](Wave& wave, std::uint64_t) {
    const LdsLoad& first = argument_of<LdsLoad>(wave, 0);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const LdsLoad& own = argument_of<LdsLoad>(wave, lane);
      if (own.tile != first.tile)
        report_misuse("misuse", "the LDS address of a load differs between the lanes of a wave", own.line);
    }
  });
  Fiber& self = *machine.current;
  char* target = argument.tile + unsigned(bytes) * self.lane;
  const bool valid = inside(resource, offset, bytes, line);
  nvidia::CopyGroups& loads = self.nvidia.copies;
  nvidia::give_stream(self, loads.component, "a load to LDS of thread");
  const Accessor accessor = nvidia::unit_accessor(self, loads.component, loads.committed + 1, false, line);
  machine.memory.touch(reinterpret_cast<std::uintptr_t>(target), std::size_t(bytes), Touch::kWrite, accessor);
  const char* source = resource.base + offset;
  if (valid) machine.memory.touch(reinterpret_cast<std::uintptr_t>(source), std::size_t(bytes), Touch::kRead, accessor);
  const auto copy = [=] {
    if (valid)
      std::memcpy(target, source, std::size_t(bytes));
    else
      std::memset(target, 0, std::size_t(bytes));
  };
  if (machine.lands_at_once()) {
    copy();
  } else {
    std::memset(target, 0xFF, std::size_t(bytes));
    loads.open.push_back(copy);
  }
  nvidia::commit(loads);
}

void count_load() {
  nvidia::CopyGroups& loads = machine.current->nvidia.copies;
  if (loads.component != 0) nvidia::commit(loads);
}

void wait_loads(int pending, int line) { nvidia::cp_async_wait(pending, line); }

}  // namespace emulator::amd
