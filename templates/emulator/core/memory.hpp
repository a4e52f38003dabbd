// The memory that device code can name, and who touched each part of it last.
//
// Tensors and the shared memory of resident blocks lie in one arena, with red zones between them. A shadow cell for
// each byte of shared memory (each element of a tensor) holds the stamps of the last write and of the reads since, so
// that a race is found whatever order the threads happened to run in. The method is FastTrack's (Flanagan and Freund,
// PLDI 2009), with two reads kept in the cell and the rest in a table.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "clocks.hpp"
#include "report.hpp"

namespace emulator {

struct Access {
  Stamp stamp;
  Site site;
};

struct Cell {
  static constexpr int kReads = 2;
  Stamp write;
  Stamp reads[kReads];
  Site write_site;
  Site read_sites[kReads];
  bool generic = false;     // written by plain code or cp.async, not by the asynchronous proxy
  bool atomic = false;      // the last write was atomic
  bool more_reads = false;  // in Memory::overflow_
};

enum class Space { kShared, kGlobal };
enum class Touch { kRead, kWrite, kAtomic };

struct Region {
  Space space;
  std::string name;
  std::uintptr_t begin;
  std::size_t bytes;
  unsigned granule_shift;  // log2 of the bytes that one cell stands for
  Cell* cells = nullptr;
  bool initialised = false;  // every byte has a value from the start
  bool read_only = false;
  unsigned domain = 0;  // of shared memory: the cluster whose block holds it now, 0 for none

  std::uintptr_t end() const { return begin + bytes; }
};

// Who makes an access. What it has seen is what all of `knowledge` have seen.
struct Accessor {
  const Knowledge* knowledge;
  int knowledges;
  unsigned domain, component;
  Time time;
  bool asynchronous_proxy;
  Site site;
  unsigned issuer = ~0u;  // the thread that an asynchronous unit works for, and its time: program order counts
  Time issuer_time = 0;

  Stamp stamp() const { return Stamp::make(domain, component, time); }
  bool sees(Stamp other) const {
    if (other.domain() != domain) return has_acquired(other);
    if (other.component() == component) return other.time() <= time;
    if (other.component() == issuer) return other.time() <= issuer_time;
    for (int i = 0; i < knowledges; ++i)
      if (!covers(knowledge[i].seen, other.component(), other.time())) return false;
    return true;
  }
  bool has_acquired(Stamp other) const {
    for (int i = 0; i < knowledges; ++i) {
      const Foreign& known = knowledge[i].acquired;
      const auto found = known ? known->find(other.domain()) : std::map<unsigned, Snapshot>::const_iterator();
      if (!known || found == known->end() || !covers(found->second, other.component(), other.time())) return false;
    }
    return true;
  }
  bool sees_fenced(Stamp other) const {
    if (other.domain() != domain) return false;
    for (int i = 0; i < knowledges; ++i)
      if (!covers(knowledge[i].fenced, other.component(), other.time())) return false;
    return true;
  }
};

// Defined by the machine: "thread 5", "wgmma of warpgroup 1", …
std::string describe_agent(Stamp stamp);

inline std::string with_commas(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

inline const char* verb(Touch touch) {
  return touch == Touch::kRead ? "reads" : touch == Touch::kWrite ? "writes" : "adds to";
}

class Memory {
 public:
  static constexpr std::size_t kChunk = 1 << 16;  // regions start in a chunk of their own, with a free one behind

  void reserve(std::size_t bytes) {
    bytes_ = (bytes + kChunk - 1) / kChunk * kChunk;
    begin_ = reinterpret_cast<std::uintptr_t>(map(bytes_ + kChunk)) + kChunk - 1;
    begin_ -= begin_ % kChunk;
    chunks_.assign(bytes_ / kChunk, 0);
    next_ = kChunk;
  }

  static std::size_t footprint(std::size_t bytes) { return (bytes + kChunk - 1) / kChunk * kChunk + kChunk; }

  // `offset` bytes into a chunk
  Region& add(Space space, const std::string& name, std::size_t bytes, unsigned granule_shift, std::size_t offset = 0) {
    const std::uintptr_t begin = begin_ + next_ + offset;
    regions_.push_back(std::make_unique<Region>(Region{space, name, begin, bytes, granule_shift}));
    Region& region = *regions_.back();
    for (std::size_t chunk = next_ / kChunk; chunk * kChunk < next_ + offset + bytes; ++chunk)
      chunks_[chunk] = std::uint16_t(regions_.size());
    next_ += footprint(offset + bytes);
    region.cells = make_cells(region);
    return region;
  }

  // A region outside the arena: the static shared variables of the kernel
  Region& add_static(const std::string& name, std::uintptr_t begin, std::size_t bytes) {
    regions_.push_back(std::make_unique<Region>(Region{Space::kShared, name, begin, bytes, 0}));
    static_ = regions_.back().get();
    static_->cells = make_cells(*static_);
    return *static_;
  }

  // Whether the address is one that device code shares: all else is private to a thread, or constant.
  bool watches(std::uintptr_t address) const {
    return address - begin_ < bytes_ || (static_ != nullptr && address - static_->begin < static_->bytes);
  }

  Region* find(std::uintptr_t address) const {
    if (static_ != nullptr && address - static_->begin < static_->bytes) return static_;
    if (address - begin_ >= bytes_) return nullptr;
    const unsigned index = chunks_[(address - begin_) / kChunk];
    if (index == 0 || address < regions_[index - 1]->begin || address >= regions_[index - 1]->end()) return nullptr;
    return regions_[index - 1].get();
  }

  // The region that holds all these bytes; reports the access as out of bounds if there is none.
  Region& resolve(std::uintptr_t address, std::size_t bytes, Touch touch, const Accessor& accessor) const {
    Region* region = find(address);
    if (region == nullptr || address + bytes > region->end()) report_outside(address, bytes, touch, accessor);
    return *region;
  }

  void touch(std::uintptr_t address, std::size_t bytes, Touch touch, const Accessor& accessor) {
    Region& region = resolve(address, bytes, touch, accessor);
    if (region.read_only) {
      if (touch == Touch::kRead) return;
      report("read-only", region, address, accessor, std::string(verb(touch)) + " an input", {});
    }
    const std::size_t first = (address - region.begin) >> region.granule_shift;
    const std::size_t last = (address + bytes - 1 - region.begin) >> region.granule_shift;
    trusted_ = fenced_ = Stamp();
    for (std::size_t i = first; i <= last; ++i) {
      Cell& cell = region.cells[i];
      if (touch == Touch::kRead)
        read(region, cell, i, accessor);
      else
        write(region, cell, i, touch, accessor);
    }
  }

  // Checks that a write to these bytes has been seen, without counting as a read: the state of a barrier object.
  void expect_seen(std::uintptr_t address, const Accessor& accessor) {
    Region& region = resolve(address, 1, Touch::kRead, accessor);
    const std::size_t i = (address - region.begin) >> region.granule_shift;
    const Cell& cell = region.cells[i];
    if (holds(region, cell.write) && !accessor.sees(cell.write))
      report_race(region, i, accessor, "uses", {cell.write, cell.write_site}, "initialised");
  }

 private:
  static void* map(std::size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) stop_with_report("resources", "the host has too little memory for the emulation", {});
    return memory;
  }

  static Cell* make_cells(const Region& region) {
    return static_cast<Cell*>(map(((region.bytes >> region.granule_shift) + 1) * sizeof(Cell)));
  }

  // Whether a stamp is of the present use of the region: shared memory changes hands.
  static bool holds(const Region& region, Stamp stamp) {
    return stamp && (region.space == Space::kGlobal || stamp.domain() == region.domain);
  }

  void read(Region& region, Cell& cell, std::size_t index, const Accessor& accessor) {
    const Stamp now = accessor.stamp();
    if (cell.reads[0] == now) return;
    if (holds(region, cell.write)) {
      check_write(region, cell, index, "reads", accessor);
    } else if (!region.initialised) {
      report("poison", region, region.begin + (index << region.granule_shift), accessor,
             "reads memory that nothing has written", {});
    }
    remember_read(region, cell, now, accessor);
  }

  // The last write must have been seen, and fenced if plain code made it and an asynchronous unit comes now.
  void check_write(const Region& region, const Cell& cell, std::size_t index, const char* what,
                   const Accessor& accessor) {
    if (cell.write != trusted_ && !accessor.sees(cell.write))
      report_race(region, index, accessor, what, {cell.write, cell.write_site}, cell.atomic ? "added to" : "written");
    trusted_ = cell.write;
    if (!accessor.asynchronous_proxy || !cell.generic || region.space != Space::kShared) return;
    if (cell.write != fenced_ && !accessor.sees_fenced(cell.write))
      report_unfenced(region, index, accessor, what, cell);
    fenced_ = cell.write;
  }

  void remember_read(const Region& region, Cell& cell, Stamp now, const Accessor& accessor) {
    for (int i = 0; i < Cell::kReads; ++i) {
      const Stamp old = cell.reads[i];
      if (!holds(region, old) || (old.domain() == now.domain() && old.component() == now.component()) ||
          accessor.sees(old)) {
        cell.reads[i] = now;
        cell.read_sites[i] = accessor.site;
        return;
      }
    }
    std::vector<Access>& more = overflow_[&cell];
    if (!cell.more_reads) more.clear();
    cell.more_reads = true;
    for (Access& access : more) {
      if (!holds(region, access.stamp) || accessor.sees(access.stamp)) {
        access = {now, accessor.site};
        return;
      }
    }
    more.push_back({now, accessor.site});
  }

  void write(Region& region, Cell& cell, std::size_t index, Touch touch, const Accessor& accessor) {
    const bool atomic = touch == Touch::kAtomic;
    const Stamp now = accessor.stamp();
    if (holds(region, cell.write)) {
      if (!(atomic && cell.atomic)) check_write(region, cell, index, verb(touch), accessor);
    } else if (atomic && !region.initialised) {
      report("poison", region, region.begin + (index << region.granule_shift), accessor,
             "adds to memory that nothing has written", {});
    }
    for (int i = 0; i < Cell::kReads; ++i)
      check_read(region, index, accessor, touch, {cell.reads[i], cell.read_sites[i]});
    if (cell.more_reads)
      for (const Access& access : overflow_[&cell]) check_read(region, index, accessor, touch, access);
    cell.write = now;
    cell.write_site = accessor.site;
    cell.generic = !accessor.asynchronous_proxy;
    cell.atomic = atomic;
    cell.more_reads = false;
    for (int i = 0; i < Cell::kReads; ++i) cell.reads[i] = Stamp();
  }

  void check_read(const Region& region, std::size_t index, const Accessor& accessor, Touch touch, Access read) {
    if (holds(region, read.stamp) && !accessor.sees(read.stamp))
      report_race(region, index, accessor, verb(touch), read, "read");
  }

  static std::string place(const Region& region, std::uintptr_t address) {
    const std::size_t offset = address - region.begin;
    if (region.space == Space::kShared) return "byte " + with_commas(offset) + " of " + region.name;
    return "element " + with_commas(offset >> region.granule_shift) + " of " + region.name;
  }

  [[noreturn]] static void report(const char* kind, const Region& region, std::uintptr_t address,
                                  const Accessor& accessor, const std::string& what, std::vector<Site> also) {
    also.insert(also.begin(), accessor.site);
    stop_with_report(kind, describe_agent(accessor.stamp()) + " " + what + ": " + place(region, address), also);
  }

  [[noreturn]] static void report_race(const Region& region, std::size_t index, const Accessor& accessor,
                                       const std::string& what, Access other, const std::string& was) {
    stop_with_report("race",
                     describe_agent(accessor.stamp()) + " " + what + " " +
                         place(region, region.begin + (index << region.granule_shift)) + " at {0}, which " +
                         describe_agent(other.stamp) + " has " + was + " at {1}; nothing orders the two",
                     {accessor.site, other.site});
  }

  [[noreturn]] static void report_unfenced(const Region& region, std::size_t index, const Accessor& accessor,
                                           const std::string& what, const Cell& cell) {
    stop_with_report("missing-fence",
                     describe_agent(accessor.stamp()) + " " + what + " " +
                         place(region, region.begin + (index << region.granule_shift)) + " at {0}, which " +
                         describe_agent(cell.write) +
                         " has written at {1} by plain code; fence_proxy_async must come between the two",
                     {accessor.site, cell.write_site});
  }

  [[noreturn]] void report_outside(std::uintptr_t address, std::size_t bytes, Touch touch,
                                   const Accessor& accessor) const {
    const Region* nearest = nullptr;
    std::uintptr_t distance = ~std::uintptr_t(0);
    for (const auto& region : regions_) {
      const std::uintptr_t far = address >= region->end() ? address - region->end() : region->begin - address;
      if (address + bytes > region->end() && address < region->end()) {
        nearest = region.get();
        distance = 0;
      } else if (far < distance) {
        nearest = region.get();
        distance = far;
      }
    }
    std::string where = "no tensor and no shared memory";
    if (nearest != nullptr && address < nearest->end() && address >= nearest->begin)
      where = with_commas(address + bytes - nearest->end()) + " bytes over the end of " + nearest->name;
    else if (nearest != nullptr)
      where = with_commas(distance) + " bytes " + (address >= nearest->end() ? "past the end" : "before the start") +
              " of " + nearest->name;
    stop_with_report("out-of-bounds",
                     describe_agent(accessor.stamp()) + " " + verb(touch) + " " + std::to_string(bytes) +
                         " bytes out of bounds: " + where,
                     {accessor.site});
  }

  std::uintptr_t begin_ = 0;
  std::size_t bytes_ = 0, next_ = 0;
  std::vector<std::uint16_t> chunks_;  // 1 + index of the region, 0 for none
  std::vector<std::unique_ptr<Region>> regions_;
  Region* static_ = nullptr;
  std::unordered_map<const Cell*, std::vector<Access>> overflow_;
  Stamp trusted_, fenced_;  // writes that the access under way is known to have seen: neighbours share them
};

}  // namespace emulator
