// The tensor memory accelerator: boxes between global and shared memory (PTX ISA 9.7.9.27; the layout in shared memory:
// PTX ISA, "Tensors", swizzling modes).
#pragma once

#include <algorithm>

#include "../../numeric.hpp"
#include "copies.hpp"

namespace emulator::nvidia {

// What a CUtensorMap of the emulated launch holds
struct TensorMapHandle {
  static constexpr u64 kMagic = 0x74696C6567656E00;
  u64 magic, number;
};

inline const TensorMap& tensor_map(const void* map, int line) {
  TensorMapHandle handle;
  std::memcpy(&handle, map, sizeof handle);
  if (handle.magic != TensorMapHandle::kMagic || handle.number >= machine.tensor_maps.size())
    report_misuse("misuse", "a TMA instruction gets an address that is no tensor map of the launch", line);
  return machine.tensor_maps[handle.number];
}

// Where the hardware puts what belongs at this shared address: 16-byte chunks are permuted by an XOR of address bits.
inline std::uint32_t swizzled(std::uint32_t address, unsigned swizzle_bytes) {
  switch (swizzle_bytes) {
    case 128:
      return address ^ (address >> 3 & 0x70);
    case 64:
      return address ^ (address >> 3 & 0x30);
    case 32:
      return address ^ (address >> 3 & 0x10);
    default:
      return address;
  }
}

// One row of a box along the fastest dimension
struct BoxRow {
  std::size_t offset;      // bytes, in the box
  std::uintptr_t address;  // of its first element that is inside the tensor
  unsigned first, last;    // elements of the row that are inside the tensor
};

template <class Function>
void for_each_row(const TensorMap& map, const int* coordinates, Function function) {
  const unsigned row_bytes = map.box[0] * map.element_bytes;
  const std::size_t rows = map.box_bytes() / row_bytes;
  const std::int64_t first = std::clamp<std::int64_t>(-std::int64_t(coordinates[0]), 0, map.box[0]);
  const std::int64_t last = std::clamp<std::int64_t>(map.extents[0] - coordinates[0], 0, map.box[0]);
  for (std::size_t row = 0; row < rows; ++row) {
    std::size_t rest = row;
    std::int64_t offset = (coordinates[0] + first) * map.element_bytes;
    bool inside = first < last;
    for (int i = 1; i < map.rank; ++i) {
      const std::int64_t position = coordinates[i] + std::int64_t(rest % map.box[i]);
      rest /= map.box[i];
      inside = inside && position >= 0 && position < map.extents[i];
      offset += position * map.strides[i];
    }
    function(BoxRow{row * row_bytes, map.base + std::uintptr_t(offset), inside ? unsigned(first) : 0,
                    inside ? unsigned(last) : 0});
  }
}

// Calls function(offset in the row, address in shared memory, bytes) for the chunks of part of a row.
template <class Function>
void for_each_chunk(const TensorMap& map, const BoxRow& row, std::uintptr_t shared, std::uint32_t tile_offset,
                    unsigned first_byte, unsigned last_byte, Function function) {
  constexpr unsigned kChunk = 16;
  for (unsigned begin = first_byte; begin < last_byte;) {
    const unsigned end = std::min(last_byte, (begin / kChunk + 1) * kChunk);
    const std::uint32_t plain = kReservedShared + tile_offset + std::uint32_t(row.offset) + begin;
    function(begin, shared + swizzled(plain, map.swizzle_bytes) - kReservedShared, end - begin);
    begin = end;
  }
}

inline std::uint32_t tile_offset_of(const TensorMap& map, const void* tile, int line) {
  const std::uint32_t offset = shared_offset(tile, "the tile of a TMA instruction", line);
  if (offset % 128 != 0)
    report_misuse("misaligned",
                  "TMA wants the tile in shared memory aligned to 128 bytes; it is at byte " + with_commas(offset),
                  line);
  if (offset + map.box_bytes() > machine.config.shared_bytes)
    report_misuse("out-of-bounds",
                  "a box of " + with_commas(map.box_bytes()) + " bytes at byte " + with_commas(offset) +
                      " does not fit into the block's shared memory",
                  line);
  return offset;
}

inline void copy_box_to_shared(const TensorMap& map, const int* coordinates, std::uintptr_t shared,
                               std::uint32_t offset) {
  std::vector<char> values(map.box[0] * map.element_bytes);
  for_each_row(map, coordinates, [&](const BoxRow& row) {
    std::fill(values.begin(), values.end(), 0);
    if (row.first < row.last)
      std::memcpy(values.data() + row.first * map.element_bytes, reinterpret_cast<const char*>(row.address),
                  (row.last - row.first) * map.element_bytes);
    for_each_chunk(map, row, shared, offset, 0, unsigned(values.size()),
                   [&](unsigned begin, std::uintptr_t address, unsigned bytes) {
                     std::memcpy(reinterpret_cast<char*>(address), values.data() + begin, bytes);
                   });
  });
}

constexpr std::int64_t kPlaceMultiple = 16;  // bytes, of where a box begins along the innermost axis

struct Coordinates {
  int at[TensorMap::kMaxRank] = {};
  Coordinates(const TensorMap& map, int rank, const int* values, int line) {
    if (rank != map.rank)
      report_misuse("misuse",
                    "a " + std::to_string(rank) + "-D TMA instruction on the " + std::to_string(map.rank) +
                        "-D tensor map of " + map.tensor,
                    line);
    std::copy(values, values + rank, at);
    const std::int64_t first = std::int64_t(at[0]) * map.element_bytes;
    if (first % kPlaceMultiple != 0)
      report_misuse("misaligned",
                    "a box of " + map.tensor + " begins at byte " + std::to_string(first) +
                        " of a row: TMA wants a multiple of " + std::to_string(kPlaceMultiple) +
                        ", or ends in an illegal instruction",
                    line);
  }

  // Boxes that are loaded may begin before the tensor.
  void require_no_negative(const TensorMap& map, int line) const {
    for (int i = 0; i < map.rank; ++i)
      if (at[i] < 0)
        report_misuse("misuse",
                      "a box of " + map.tensor + " is stored at index " + std::to_string(at[i]) + " of dimension " +
                          std::to_string(i) + ": TMA stores and reductions that begin before the tensor end in an " +
                          "illegal instruction",
                      line);
  }
};

inline void issue_load(Block& target, const TensorMap& map, const Coordinates& coordinates, std::uint32_t offset,
                       std::uint32_t barrier_offset, int line) {
  Fiber& self = *machine.current;
  Mbarrier& barrier = find_barrier(target, barrier_offset, line);
  require_fenced(barrier, "TMA", line);
  barrier.copy_line = line;
  const Time number = issue_copy(barrier, self.block->cluster->domain);
  const std::uintptr_t shared = target.shared->begin;
  const Accessor accessor = unit_accessor(self, barrier.component, number, true, line);
  machine.memory.touch(shared + offset, map.box_bytes(), Touch::kWrite, accessor);
  for_each_row(map, coordinates.at, [&](const BoxRow& row) {
    if (row.first < row.last)
      machine.memory.touch(row.address, (row.last - row.first) * map.element_bytes, Touch::kRead, accessor);
  });
  const auto land = [&map, coordinates, shared, offset, &barrier, number] {
    copy_box_to_shared(map, coordinates.at, shared, offset);
    complete_copy(barrier, number, std::int64_t(map.box_bytes()));
  };
  if (machine.lands_at_once()) {
    land();
  } else {
    std::memset(reinterpret_cast<char*>(shared + offset), 0xFF, map.box_bytes());
    scheduler.add_job(land);
  }
}

void tma_load(void* tile, const void* handle, int rank, const int* values, u64& barrier, int line) {
  const TensorMap& map = tensor_map(handle, line);
  const Coordinates coordinates(map, rank, values, line);
  issue_load(*machine.current->block, map, coordinates, tile_offset_of(map, tile, line),
             shared_offset(&barrier, "an mbarrier", line), line);
}

void tma_load_multicast(void* tile, const void* handle, int rank, const int* values, u64& barrier,
                        unsigned short blocks, int line) {
  const TensorMap& map = tensor_map(handle, line);
  const Coordinates coordinates(map, rank, values, line);
  const std::uint32_t offset = tile_offset_of(map, tile, line);
  const std::uint32_t barrier_offset = shared_offset(&barrier, "an mbarrier", line);
  for (u32 peer = 0; peer < 16; ++peer)
    if (blocks >> peer & 1) issue_load(peer_block(peer, line), map, coordinates, offset, barrier_offset, line);
}

template <class Number>
void add_numbers(char* target, const char* source, unsigned bytes) {
  for (unsigned i = 0; i + sizeof(Number) <= bytes; i += sizeof(Number)) {
    Number a, b;
    std::memcpy(&a, target + i, sizeof a);
    std::memcpy(&b, source + i, sizeof b);
    a = Number(a + b);
    std::memcpy(target + i, &a, sizeof a);
  }
}

template <float (*kToFloat)(std::uint16_t), std::uint16_t (*kFromFloat)(float)>
void add_short_floats(char* target, const char* source, unsigned bytes) {
  for (unsigned i = 0; i + 2 <= bytes; i += 2) {
    std::uint16_t a, b;
    std::memcpy(&a, target + i, 2);
    std::memcpy(&b, source + i, 2);
    a = kFromFloat(kToFloat(a) + kToFloat(b));
    std::memcpy(target + i, &a, 2);
  }
}

inline void add_elements(const TensorMap& map, char* target, const char* source, unsigned bytes) {
  switch (map.element) {
    case Element::kF16:
      return add_short_floats<half_to_float, float_to_half>(target, source, bytes);
    case Element::kBF16:
      return add_short_floats<bfloat_to_float, float_to_bfloat>(target, source, bytes);
    case Element::kF32:
      return add_numbers<float>(target, source, bytes);
    case Element::kF64:
      return add_numbers<double>(target, source, bytes);
    case Element::kI32:
    case Element::kU32:
      return add_numbers<std::uint32_t>(target, source, bytes);
    case Element::kI64:
    case Element::kU64:
      return add_numbers<std::uint64_t>(target, source, bytes);
    default:
      report_misuse("misuse", "TMA cannot add elements of the type of " + map.tensor, 0);
  }
}

inline void copy_box_to_global(const TensorMap& map, const Coordinates& coordinates, std::uintptr_t shared,
                               std::uint32_t offset, Reduction reduction) {
  for_each_row(map, coordinates.at, [&](const BoxRow& row) {
    const unsigned first = row.first * map.element_bytes, last = row.last * map.element_bytes;
    for_each_chunk(map, row, shared, offset, first, last, [&](unsigned begin, std::uintptr_t address, unsigned bytes) {
      char* target = reinterpret_cast<char*>(row.address + begin - first);
      if (reduction == Reduction::kAdd)
        add_elements(map, target, reinterpret_cast<const char*>(address), bytes);
      else
        std::memcpy(target, reinterpret_cast<const char*>(address), bytes);
    });
  });
}

void tma_store(const void* handle, const void* tile, int rank, const int* values, Reduction reduction, int line) {
  Fiber& self = *machine.current;
  const TensorMap& map = tensor_map(handle, line);
  const Coordinates coordinates(map, rank, values, line);
  coordinates.require_no_negative(map, line);
  const std::uint32_t offset = tile_offset_of(map, tile, line);
  const std::uintptr_t shared = self.block->shared->begin;
  CopyGroups& groups = self.nvidia.stores;
  give_stream(self, groups.component, "a TMA store of thread");
  give_stream(self, self.nvidia.store_writes, "a TMA store of thread");
  const Time group = groups.committed + 1;
  const Accessor reader = unit_accessor(self, groups.component, group, true, line);
  const Accessor writer = unit_accessor(self, self.nvidia.store_writes, group, true, line);
  const Touch touch = reduction == Reduction::kAdd ? Touch::kAtomic : Touch::kWrite;
  for_each_row(map, coordinates.at, [&](const BoxRow& row) {
    if (row.first >= row.last) return;
    const unsigned first = row.first * map.element_bytes, last = row.last * map.element_bytes;
    for_each_chunk(map, row, shared, offset, first, last, [&](unsigned, std::uintptr_t address, unsigned bytes) {
      machine.memory.touch(address, bytes, Touch::kRead, reader);
    });
    machine.memory.touch(row.address, last - first, touch, writer);
  });
  groups.last_used = groups.committed + 1;
  groups.last_line = line;
  const auto land = [&map, coordinates, shared, offset, reduction] {
    copy_box_to_global(map, coordinates, shared, offset, reduction);
  };
  if (machine.lands_at_once())
    land();
  else
    groups.open.push_back(land);
}

void tma_store_commit(int) { commit(machine.current->nvidia.stores); }

void tma_store_wait(bool reads_only, int) {
  Fiber& self = *machine.current;
  CopyGroups& groups = self.nvidia.stores;
  while (!groups.pending.empty()) complete_front(groups);
  if (groups.component == 0 || groups.completed == 0) return;
  self.agent.learn(groups.component, groups.completed, machine.join);
  if (!reads_only) self.agent.learn(self.nvidia.store_writes, groups.completed, machine.join);
}

void prefetch_tensor_map(const void* map, int line) { tensor_map(map, line); }

}  // namespace emulator::nvidia
