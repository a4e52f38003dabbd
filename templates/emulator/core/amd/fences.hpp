// Memory fences of waves.
#pragma once

#include "../machine.hpp"

namespace emulator::amd {

void fence_device() {
  Fiber& self = *machine.current;
  Times of_the_wave;
  for (const Fiber* lane : self.wave->lanes) {
    const unsigned component = lane->agent.component;
    const Snapshot& seen = self.agent.knowledge.seen;
    if (seen && component < seen->size()) raise(of_the_wave, component, (*seen)[component]);
  }
  self.agent.fence_device(self.block->cluster->domain, std::move(of_the_wave));
}

}  // namespace emulator::amd
