// The job that the emulator's program is given: configuration, tensors, arguments.
#pragma once

#include <link.h>

#include <fstream>
#include <sstream>

#include "launch.hpp"

// The kernel's static shared variables lie in this section; the linker defines its ends if there are any.
extern "C" {
extern char __start_emulator_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_emulator_shared[] __attribute__((weak, visibility("hidden")));
}

namespace emulator {

inline std::uintptr_t load_address() {
  std::uintptr_t address = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        *static_cast<std::uintptr_t*>(result) = info->dlpi_addr;  // the program itself comes first
        return 1;
      },
      &address);
  return address;
}

// ---- Faults of the kernel's own code ----------------------------------------------------------------------------

inline const void* faulting_code(const void* context) {
#if defined(__x86_64__) && defined(__linux__)
  return reinterpret_cast<const void*>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP] + 1);
#elif defined(__aarch64__) && defined(__linux__)
  return reinterpret_cast<const void*>(static_cast<const ucontext_t*>(context)->uc_mcontext.pc + 1);
#else
  return nullptr;
#endif
}

inline void on_fault(int signal, siginfo_t* information, void* context) {
  const Site site = reporter.code_site(faulting_code(context));
  const Fiber* fiber = machine.current;
  const std::string who =
      fiber == nullptr ? "the emulator"
                       : "thread " + std::to_string(fiber->linear) + " of block " + describe(fiber->block->index);
  if (signal == SIGALRM) stop_with_report("timeout", who + " was still running when the time was up", {site});
  if (signal == SIGFPE) stop_with_report("crash", who + " divides an integer by zero", {site});
  if (signal == SIGILL || signal == SIGTRAP || signal == SIGABRT)
    stop_with_report("trap", who + " has stopped the kernel", {site});
  const char* address = static_cast<const char*>(information->si_addr);
  if (fiber != nullptr && address < fiber->stack && address + Scheduler::kStackBytes > fiber->stack)
    stop_with_report("crash", who + " has used up its stack", {site});
  stop_with_report("out-of-bounds", who + " uses an address far from every tensor and from shared memory", {site});
}

inline void catch_faults() {
  constexpr std::size_t kBytes = 64 << 10;
  static char stack[kBytes];
  stack_t alternative = {};
  alternative.ss_sp = stack;
  alternative.ss_size = kBytes;
  sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGALRM})
    sigaction(signal, &action, nullptr);
}

// ---- The job ----------------------------------------------------------------------------------------------------

class Job {
 public:
  Job(const char* job_path, const char* data_path) : data_path_(data_path) {
    std::ifstream file(job_path);
    std::string text, word;
    while (std::getline(file, text)) {
      std::istringstream line(text);
      line >> word;
      read(word, line);
    }
  }

  void prepare() {
    Config& config = machine.config;
    machine.seed();
    std::size_t bytes = 2 * Memory::kChunk;
    for (const Tensor& tensor : tensors_) bytes += Memory::footprint(tensor.alignment + tensor.bytes);
    bytes += (config.multiprocessors + config.cluster_blocks()) * Memory::footprint(config.shared_bytes);
    machine.memory.reserve(bytes);
    std::ifstream data(data_path_, std::ios::binary);
    for (Tensor& tensor : tensors_) {
      // As little aligned as the contract allows
      tensor.region =
          &machine.memory.add(Space::kGlobal, tensor.name, tensor.bytes, tensor.granule_shift, tensor.alignment);
      tensor.region->read_only = tensor.role == "input";
      tensor.region->initialised = tensor.role != "output";
      data.read(reinterpret_cast<char*>(tensor.region->begin), std::streamsize(tensor.bytes));
    }
    for (auto& [number, map] : maps_) {
      map.base = tensors_[number].region->begin;
      machine.tensor_maps.push_back(map);
    }
    bind_arguments();
    if (const unsigned seconds = timeout_; seconds > 0) alarm(seconds);
  }

  // The region of the kernel's static shared variables, if it has any
  Region* static_shared() const {
    if (&__start_emulator_shared[0] == &__stop_emulator_shared[0]) return nullptr;
    machine.config.shared_bytes = std::size_t(__stop_emulator_shared - __start_emulator_shared);
    return &machine.memory.add_static("shared memory", reinterpret_cast<std::uintptr_t>(__start_emulator_shared),
                                      machine.config.shared_bytes);
  }

  void write_back() const {
    std::ofstream data(data_path_, std::ios::binary);
    for (const Tensor& tensor : tensors_)
      data.write(reinterpret_cast<const char*>(tensor.region->begin), std::streamsize(tensor.bytes));
  }

 private:
  struct Tensor {
    std::string name;
    std::size_t bytes = 0;
    unsigned granule_shift = 0;
    std::string role;           // input, output, inout
    std::size_t alignment = 0;  // bytes that the caller promises
    Region* region = nullptr;
  };

  struct Argument {
    enum { kPointer, kScalar, kTensorMap } kind;
    std::size_t number = 0;   // of the tensor or of the map
    std::vector<char> bytes;  // of a scalar
  };

  // A kernel argument takes up to the 128 bytes of a tensor map.
  struct alignas(64) Slot {
    char bytes[128];
  };

  void read(const std::string& word, std::istringstream& line) {
    Config& config = machine.config;
    std::string name;
    if (word == "schedule") {
      line >> name;
      config.schedule = name == "fifo" ? Schedule::kFifo : name == "reverse" ? Schedule::kReverse : Schedule::kRandom;
    } else if (word == "asynchronous") {
      line >> name;
      config.asynchronous = name == "eager"  ? Asynchronous::kEager
                            : name == "lazy" ? Asynchronous::kLazy
                                             : Asynchronous::kRandom;
    } else if (word == "seed") {
      line >> config.seed;
    } else if (word == "multiprocessors") {
      line >> config.multiprocessors;
    } else if (word == "grid") {
      line >> config.grid.x >> config.grid.y >> config.grid.z;
    } else if (word == "block") {
      line >> config.block.x >> config.block.y >> config.block.z;
    } else if (word == "cluster") {
      line >> config.cluster.x >> config.cluster.y >> config.cluster.z;
    } else if (word == "shared_bytes") {
      line >> config.shared_bytes;
    } else if (word == "entry_registers") {
      line >> config.entry_registers;
    } else if (word == "wave_size") {
      line >> config.wave_size;
    } else if (word == "timeout") {
      line >> timeout_;
    } else if (word == "tensor") {
      Tensor tensor;
      line >> tensor.name >> tensor.bytes >> tensor.granule_shift >> tensor.role >> tensor.alignment;
      tensors_.push_back(tensor);
    } else if (word == "pointer") {
      Argument argument{Argument::kPointer, 0, {}};
      line >> argument.number;
      arguments_.push_back(argument);
    } else if (word == "scalar") {
      Argument argument{Argument::kScalar, 0, {}};
      for (unsigned byte; line >> byte;) argument.bytes.push_back(char(byte));
      arguments_.push_back(argument);
    } else if (word == "tensor_map") {
      read_tensor_map(line);
    }
  }

  void read_tensor_map(std::istringstream& line) {
    nvidia::TensorMap map = {};
    std::size_t tensor = 0;
    int element = 0;
    line >> tensor >> element >> map.element_bytes >> map.rank >> map.swizzle_bytes;
    map.element = nvidia::Element(element);
    map.tensor = tensors_[tensor].name;
    for (int i = 0; i < map.rank; ++i) line >> map.extents[i] >> map.strides[i] >> map.box[i];
    arguments_.push_back({Argument::kTensorMap, maps_.size(), {}});
    maps_.emplace_back(tensor, map);
  }

  void bind_arguments() {
    const Kernel kernel = emulator::kernel();
    if (kernel.arguments != arguments_.size())
      stop_with_report("manifest",
                       "the kernel takes " + std::to_string(kernel.arguments) + " arguments, the manifest has " +
                           std::to_string(arguments_.size()),
                       {});
    values_.resize(arguments_.size());
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      const std::size_t bytes = write_argument(arguments_[i], values_[i]);
      if (bytes != kernel.argument_bytes[i])
        stop_with_report("manifest",
                         "argument " + std::to_string(i) + " of the kernel has " +
                             std::to_string(kernel.argument_bytes[i]) + " bytes, the manifest's has " +
                             std::to_string(bytes),
                         {});
      pointers_.push_back(values_[i].bytes);
    }
    machine.arguments = pointers_.data();
  }

  std::size_t write_argument(const Argument& argument, Slot& slot) const {
    std::memset(slot.bytes, 0, sizeof slot.bytes);
    if (argument.kind == Argument::kScalar) {
      std::memcpy(slot.bytes, argument.bytes.data(), argument.bytes.size());
      return argument.bytes.size();
    }
    if (argument.kind == Argument::kPointer) {
      std::memcpy(slot.bytes, &tensors_[argument.number].region->begin, sizeof(void*));
      return sizeof(void*);
    }
    const nvidia::TensorMapHandle handle = {nvidia::TensorMapHandle::kMagic, argument.number};
    std::memcpy(slot.bytes, &handle, sizeof handle);
    return sizeof slot.bytes;
  }

  std::string data_path_;
  unsigned timeout_ = 0;
  std::vector<Tensor> tensors_;
  std::vector<std::pair<std::size_t, nvidia::TensorMap>> maps_;
  std::vector<Argument> arguments_;
  std::vector<Slot> values_;
  std::vector<void*> pointers_;
};

}  // namespace emulator
