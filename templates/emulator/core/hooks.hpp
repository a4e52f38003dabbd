// What -fsanitize=thread makes the kernel's code call at each plain memory access, and atomics.
//
// The names and arguments are those of the compilers' instrumentation; ThreadSanitizer itself is not linked.
#pragma once

#include "nvidia/wgmma.hpp"

namespace emulator {

inline void plain_access(const void* pointer, std::size_t bytes, bool write, bool aligned, const void* code) {
  Fiber* fiber = machine.current;
  if (fiber == nullptr) return;
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(pointer);
  if (!machine.memory.watches(address)) {
    if (!fiber->nvidia.guarded.empty() || !fiber->nvidia.accumulators.empty())
      nvidia::check_register_access(*fiber, address, bytes, write, reporter.code_site(code));
    return;
  }
  if (address >= fiber->atomic_begin && address + bytes <= fiber->atomic_end) return;
  const Site site = reporter.code_site(code);
  if (aligned && address % bytes != 0)
    stop_with_report("misaligned",
                     "thread " + std::to_string(fiber->linear) + " of block " + describe(fiber->block->index) +
                         (write ? " writes " : " reads ") + std::to_string(bytes) +
                         " bytes at an address that is not a multiple of them",
                     {site});
  machine.memory.touch(address, bytes, write ? Touch::kWrite : Touch::kRead, accessor_of(*fiber, site));
}

void begin_atomic(const void* pointer, std::size_t bytes, int line) {
  scheduler.yield();
  Fiber& self = *machine.current;
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(pointer);
  if (!machine.memory.watches(address)) report_misuse("out-of-bounds", "an atomic operation on no tensor", line);
  if (address % bytes != 0) report_misuse("misaligned", "an atomic operation wants an aligned address", line);
  machine.memory.touch(address, bytes, Touch::kAtomic, accessor_of(self, Site::of_line(line)));
  machine.told.update(address, self.block->cluster->domain, self.agent);
  self.atomic_begin = address;
  self.atomic_end = address + bytes;
}

void end_atomic() { machine.current->atomic_begin = machine.current->atomic_end = 0; }

}  // namespace emulator

extern "C" {

#define EMULATOR_HOOKS(bytes)                                                                                      \
  void __tsan_read##bytes(void* p) { emulator::plain_access(p, bytes, false, true, __builtin_return_address(0)); } \
  void __tsan_write##bytes(void* p) { emulator::plain_access(p, bytes, true, true, __builtin_return_address(0)); } \
  void __tsan_unaligned_read##bytes(void* p) {                                                                     \
    emulator::plain_access(p, bytes, false, false, __builtin_return_address(0));                                   \
  }                                                                                                                \
  void __tsan_unaligned_write##bytes(void* p) {                                                                    \
    emulator::plain_access(p, bytes, true, false, __builtin_return_address(0));                                    \
  }                                                                                                                \
  void __tsan_volatile_read##bytes(void* p) {                                                                      \
    emulator::plain_access(p, bytes, false, true, __builtin_return_address(0));                                    \
  }                                                                                                                \
  void __tsan_volatile_write##bytes(void* p) {                                                                     \
    emulator::plain_access(p, bytes, true, true, __builtin_return_address(0));                                     \
  }
EMULATOR_HOOKS(1)
EMULATOR_HOOKS(2)
EMULATOR_HOOKS(4)
EMULATOR_HOOKS(8)
EMULATOR_HOOKS(16)
#undef EMULATOR_HOOKS

void __tsan_read_range(void* p, unsigned long bytes) {
  if (bytes > 0) emulator::plain_access(p, bytes, false, false, __builtin_return_address(0));
}
void __tsan_write_range(void* p, unsigned long bytes) {
  if (bytes > 0) emulator::plain_access(p, bytes, true, false, __builtin_return_address(0));
}
void* __tsan_memcpy(void* to, const void* from, unsigned long bytes) {
  if (bytes > 0) {
    emulator::plain_access(from, bytes, false, false, __builtin_return_address(0));
    emulator::plain_access(to, bytes, true, false, __builtin_return_address(0));
  }
  return std::memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, unsigned long bytes) {
  if (bytes > 0) {
    emulator::plain_access(from, bytes, false, false, __builtin_return_address(0));
    emulator::plain_access(to, bytes, true, false, __builtin_return_address(0));
  }
  return std::memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, unsigned long bytes) {
  if (bytes > 0) emulator::plain_access(to, bytes, true, false, __builtin_return_address(0));
  return std::memset(to, value, bytes);
}

// -fsanitize=alignment: a pointer is used whose type wants a stricter alignment; part of the compilers' description.
struct EmulatorMisalignment {
  const char* file;
  unsigned line, column;
  const void* type;
  unsigned char log_alignment;
};
void __ubsan_handle_type_mismatch_v1(const EmulatorMisalignment* what, std::uintptr_t) {
  const emulator::Fiber* fiber = emulator::machine.current;
  emulator::stop_with_report("misaligned",
                             "thread " + std::to_string(fiber->linear) + " of block " +
                                 emulator::describe(fiber->block->index) +
                                 " uses an address that is not a multiple of " +
                                 std::to_string(1u << what->log_alignment) + " bytes, as the type of the access wants",
                             {emulator::reporter.code_site(__builtin_return_address(0))});
}

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}

}  // extern "C"
