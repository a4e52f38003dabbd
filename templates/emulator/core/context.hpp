// A fiber's saved registers, and the switch from one fiber to another.
#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__) || defined(_WIN32) || defined(EMULATOR_UCONTEXT)
#define EMULATOR_PORTABLE_SWITCH 1
#include <ucontext.h>
#endif

namespace emulator {

#ifdef EMULATOR_PORTABLE_SWITCH

struct Context {
  ucontext_t state;
};

inline void prepare_context(Context& context, char* stack, std::size_t bytes, void (*entry)()) {
  getcontext(&context.state);
  context.state.uc_stack.ss_sp = stack;
  context.state.uc_stack.ss_size = bytes;
  context.state.uc_link = nullptr;
  makecontext(&context.state, entry, 0);
}

inline void switch_context(Context& from, Context& to) { swapcontext(&from.state, &to.state); }

#else

// System V x86-64: a callee keeps rbx, rbp and r12-r15; everything else is dead across a call.
asm(R"(
.text
.type emulator_switch, @function
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch, . - emulator_switch
)");
extern "C" void emulator_switch(void** save, void* resume) __attribute__((visibility("hidden")));

struct Context {
  void* stack_pointer = nullptr;
};

inline void prepare_context(Context& context, char* stack, std::size_t bytes, void (*entry)()) {
  constexpr int kSavedRegisters = 6;
  void** top = reinterpret_cast<void**>(stack + bytes);
  *--top = nullptr;  // the return address of entry, which never returns; keeps the stack 16-byte aligned at its start
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kSavedRegisters; ++i) *--top = nullptr;
  context.stack_pointer = top;
}

inline void switch_context(Context& from, Context& to) { emulator_switch(&from.stack_pointer, to.stack_pointer); }

#endif

}  // namespace emulator
