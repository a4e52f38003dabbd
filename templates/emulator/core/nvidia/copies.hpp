// cp.async: a thread's own copies from global to shared memory, in groups (PTX ISA 9.7.9.25, non-bulk copies).
#pragma once

#include "mbarrier.hpp"

namespace emulator::nvidia {

// An asynchronous unit at work for a thread
inline Accessor unit_accessor(const Fiber& fiber, unsigned component, Time time, bool asynchronous_proxy, int line) {
  return {&fiber.agent.knowledge,
          1,
          fiber.block->cluster->domain,
          component,
          time,
          asynchronous_proxy,
          Site::of_line(line),
          fiber.agent.component,
          fiber.agent.time};
}

inline void give_stream(Fiber& fiber, unsigned& component, const char* what) {
  if (component == 0)
    component = machine.add_stream(fiber.block->cluster->domain, fiber.block->rank, what, fiber.linear);
}

inline void commit(CopyGroups& groups) {
  groups.pending.push_back(std::move(groups.open));
  groups.open.clear();
  ++groups.committed;
}

inline void complete_front(CopyGroups& groups) {
  for (const Work& work : groups.pending.front()) work();
  groups.pending.pop_front();
  ++groups.completed;
}

void cp_async(void* shared, const void* global, int bytes, int source_bytes, int line) {
  Fiber& self = *machine.current;
  const std::uintptr_t target = reinterpret_cast<std::uintptr_t>(shared);
  const std::uintptr_t source = reinterpret_cast<std::uintptr_t>(global);
  if (target % unsigned(bytes) != 0 || (source_bytes > 0 && source % unsigned(bytes) != 0))
    report_misuse("misaligned", "cp.async of " + std::to_string(bytes) + " bytes wants both addresses aligned to them",
                  line);
  shared_offset(shared, "the target of cp.async", line);
  CopyGroups& groups = self.nvidia.copies;
  give_stream(self, groups.component, "a cp.async copy of thread");
  const Accessor accessor = unit_accessor(self, groups.component, groups.committed + 1, false, line);
  machine.memory.touch(target, std::size_t(bytes), Touch::kWrite, accessor);
  if (source_bytes > 0) machine.memory.touch(source, std::size_t(source_bytes), Touch::kRead, accessor);
  groups.last_used = groups.committed + 1;
  groups.last_line = line;
  const auto copy = [=] {
    if (source_bytes > 0) std::memcpy(shared, global, std::size_t(source_bytes));
    std::memset(static_cast<char*>(shared) + source_bytes, 0, std::size_t(bytes - source_bytes));
  };
  if (machine.lands_at_once()) {
    copy();
  } else {
    std::memset(shared, 0xFF, std::size_t(bytes));
    groups.open.push_back(copy);
  }
}

void cp_async_commit(int) { commit(machine.current->nvidia.copies); }

void cp_async_wait(int pending, int) {
  Fiber& self = *machine.current;
  CopyGroups& groups = self.nvidia.copies;
  while (groups.pending.size() > std::size_t(pending)) complete_front(groups);
  if (groups.completed > 0) self.agent.learn(groups.component, groups.completed, machine.join);
}

}  // namespace emulator::nvidia
