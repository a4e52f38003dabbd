// The one report that ends a run: written as JSON, read by tilegen.emulate.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace emulator {

// A place in the kernel: a line of the emitted file, or a code address that the reader turns into one.
struct Site {
  std::uint32_t bits = 0;  // 0: unknown
  static constexpr std::uint32_t kLine = 0x80000000;

  static Site of_line(int line) { return {line > 0 ? std::uint32_t(line) | kLine : 0}; }
  static Site of_code(std::uint32_t offset) { return {offset & ~kLine}; }
};

struct Reporter {
  const char* path = nullptr;
  std::uintptr_t load_address = 0;  // where the program's code was loaded: code addresses are reported relative to it

  Site code_site(const void* return_address) const {
    return Site::of_code(std::uint32_t(reinterpret_cast<std::uintptr_t>(return_address) - load_address - 1));
  }
};

inline Reporter reporter;

inline void append_quoted(std::string& out, const std::string& text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  out += '"';
}

// In the message, {0}, {1}, … stand for the sites; the first is the one that the error points at.
[[noreturn]] inline void stop_with_report(const char* kind, const std::string& message,
                                          const std::vector<Site>& sites) {
  std::string text = "{\"kind\": ";
  append_quoted(text, kind);
  text += ", \"message\": ";
  append_quoted(text, message);
  text += ", \"sites\": [";
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const bool line = (sites[i].bits & Site::kLine) != 0;
    text += std::string(i > 0 ? ", " : "") + "{\"" + (line ? "line" : "code") +
            "\": " + std::to_string(sites[i].bits & ~Site::kLine) + "}";
  }
  text += "]}\n";
  if (std::FILE* file = std::fopen(reporter.path, "w")) {
    std::fwrite(text.data(), 1, text.size(), file);
    std::fclose(file);
  }
  _exit(0);
}

}  // namespace emulator
