// What emulated device code calls and the emulator's core defines, for every vendor.
//
// The kernel's translation unit is compiled with -fsanitize=thread, so that the compiler announces each plain memory
// access; the core is not. `line` is the line of the emitted file that makes the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace emulator {

struct Index3 {
  unsigned x, y, z;
};

// Constant for a thread, and threads are fibers: the compiler may keep these values across calls.
__attribute__((const)) Index3 thread_index() noexcept;
__attribute__((const)) Index3 block_index() noexcept;
__attribute__((const)) Index3 block_extent() noexcept;
__attribute__((const)) Index3 grid_extent() noexcept;
__attribute__((const)) int wave_size() noexcept;
__attribute__((const)) unsigned lane_index() noexcept;
__attribute__((const)) void* dynamic_shared_memory() noexcept;

// The offset of a pointer in the shared window of the thread's block
std::uint32_t shared_address(const void* pointer, int line);

// Barrier of all threads of the block that have not left it
void synchronize_block(int line);

// Collectives of the lanes in `mask` (a warp on NVIDIA, a wave on AMD)
enum class Shuffle { kIndex, kUp, kDown, kXor };
void synchronize_wave(std::uint64_t mask, int line);
std::uint64_t shuffle(std::uint64_t bits, Shuffle mode, unsigned operand, unsigned width, std::uint64_t mask, int line);
std::uint64_t ballot(bool predicate, std::uint64_t mask, int line);
// all[i] is the value of lane i; lanes outside the mask have 0
void exchange(std::uint64_t value, std::uint64_t (&all)[64], std::uint64_t mask, int line);

// Between the two, plain accesses of the thread to the bytes are one atomic access.
void begin_atomic(const void* address, std::size_t bytes, int line);
void end_atomic();

// Stops the run with a report: the program asked for something that has no meaning on the device.
[[noreturn]] void misuse(const char* kind, const char* message, int line);

// What the kernel's translation unit defines: calls the kernel with pointers to its arguments.
struct Kernel {
  void (*call)(void* const* arguments);
  const std::size_t* argument_bytes;
  std::size_t arguments;
};
Kernel kernel();

template <auto kFunction>
struct Bound;

template <class... Arguments, void (*kFunction)(Arguments...)>
struct Bound<kFunction> {
  static void call(void* const* arguments) { unpack(arguments, std::index_sequence_for<Arguments...>()); }
  static Kernel describe() {
    static const std::size_t bytes[] = {sizeof(Arguments)..., 0};
    return {&call, bytes, sizeof...(Arguments)};
  }

 private:
  template <std::size_t... kPositions>
  static void unpack(void* const* arguments, std::index_sequence<kPositions...>) {
    kFunction(*static_cast<std::remove_cv_t<Arguments>*>(arguments[kPositions])...);
  }
};

}  // namespace emulator
