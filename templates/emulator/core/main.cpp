// The emulator's program: reads a job, runs it, writes the outputs. Compiled without instrumentation, once for all
// kernels; linked with the instrumented kernel.
//
//   program <job> <data> <report>
//
// The job is text, a word and its values a line (tilegen/emulate/job.py writes it); the data holds the tensors' bytes
// one after another and is overwritten with their values after the launch.
#include "amd/buffers.hpp"
#include "amd/fences.hpp"
#include "job.hpp"
#include "launch.hpp"

namespace emulator {

Index3 thread_index() noexcept { return machine.current->index; }
Index3 block_index() noexcept { return machine.current->block->index; }
Index3 block_extent() noexcept { return machine.config.block; }
Index3 grid_extent() noexcept { return machine.config.grid; }
int wave_size() noexcept { return int(machine.config.wave_size); }
unsigned lane_index() noexcept { return machine.current->lane; }

void* dynamic_shared_memory() noexcept { return reinterpret_cast<void*>(machine.current->block->shared->begin); }

std::uint32_t shared_address(const void* pointer, int line) {
  return nvidia::kReservedShared + nvidia::shared_offset(pointer, "an address", line);
}

void misuse(const char* kind, const char* message, int line) { report_misuse(kind, message, line); }

}  // namespace emulator

int main(int count, char** values) {
  using namespace emulator;
  if (count != 4) return 2;
  reporter.path = values[3];
  reporter.load_address = load_address();
  catch_faults();
  Job job(values[1], values[2]);
  job.prepare();
  Launch launch(job.static_shared());
  launch.run();
  job.write_back();
  return 0;
}
