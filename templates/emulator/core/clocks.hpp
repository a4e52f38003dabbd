// Who knows of whose work: vector clocks.
//
// Every thread, and every stream of asynchronous work (the copies that complete on one mbarrier, the wgmma groups of a
// warpgroup, …), is a component with a time of its own. An access is stamped with (domain, component, time). Two
// accesses are ordered if whoever makes the second has, through synchronisation, seen the time of the first. A domain
// is a cluster: its blocks can synchronise. Different clusters of one launch learn of each other's work only by an atomic
// operation between two fences: one makes the work before it visible to the whole device, the other lets in what the
// atomic told (CUDA C++ Programming Guide, "Memory Fence Functions"; the order is that of the PTX ISA, "Release and
// Acquire Patterns").
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace emulator {

using Time = std::uint32_t;
using Times = std::vector<Time>;                // by component; what is missing is 0
using Snapshot = std::shared_ptr<const Times>;  // nullptr: nothing seen

struct Stamp {
  std::uint64_t bits = 0;  // 0: no access; times start at 1

  static Stamp make(unsigned domain, unsigned component, Time time) {
    return {std::uint64_t(domain) << 44 | std::uint64_t(component) << 28 | (time & 0xFFFFFFF)};
  }
  unsigned domain() const { return unsigned(bits >> 44); }
  unsigned component() const { return unsigned(bits >> 28) & 0xFFFF; }
  Time time() const { return Time(bits & 0xFFFFFFF); }
  explicit operator bool() const { return bits != 0; }
  bool operator==(const Stamp&) const = default;
};

inline bool covers(const Snapshot& snapshot, unsigned component, Time time) {
  return snapshot && component < snapshot->size() && (*snapshot)[component] >= time;
}

inline void raise(Times& times, unsigned component, Time time) {
  if (component >= times.size()) times.resize(component + 1, 0);
  times[component] = std::max(times[component], time);
}

inline void raise_all(Times& times, const Times& other) {
  if (other.size() > times.size()) times.resize(other.size(), 0);
  for (std::size_t i = 0; i < other.size(); ++i) times[i] = std::max(times[i], other[i]);
}

// Joins of snapshots. Threads that learn the same things share one snapshot, so the last results are kept.
class Joiner {
 public:
  // The snapshot, with one time raised
  Snapshot operator()(const Snapshot& a, unsigned component, Time time) {
    if (covers(a, component, time)) return a;
    for (const Raised& entry : recently_raised_)
      if (entry.joined && entry.a == a && entry.component == component && entry.time == time) return entry.joined;
    Times times = a ? *a : Times();
    raise(times, component, time);
    Snapshot joined = std::make_shared<const Times>(std::move(times));
    recently_raised_[next_raised_] = {a, joined, component, time};
    next_raised_ = (next_raised_ + 1) % kRecent;
    return joined;
  }

  Snapshot operator()(const Snapshot& a, const Snapshot& b) {
    if (!b || a == b) return a;
    if (!a) return b;
    for (const Entry& entry : recent_)
      if (entry.a == a && entry.b == b) return entry.joined;
    Times times = *a;
    raise_all(times, *b);
    Snapshot joined = times == *a ? a : times == *b ? b : std::make_shared<const Times>(std::move(times));
    recent_[next_] = {a, b, joined};
    next_ = (next_ + 1) % kRecent;
    return joined;
  }

 private:
  struct Entry {
    Snapshot a, b, joined;
  };
  struct Raised {
    Snapshot a, joined;
    unsigned component;
    Time time;
  };
  static constexpr int kRecent = 8;
  Entry recent_[kRecent];
  Raised recently_raised_[kRecent] = {};
  int next_ = 0, next_raised_ = 0;
};

// What is known of other domains, by domain; nullptr: nothing
using Foreign = std::shared_ptr<const std::map<unsigned, Snapshot>>;

inline Snapshot joined(const Snapshot& a, const Snapshot& b) {
  if (!b || a == b) return a;
  if (!a) return b;
  Times times = *a;
  raise_all(times, *b);
  return std::make_shared<const Times>(std::move(times));
}

inline Foreign joined(const Foreign& a, const Foreign& b) {
  if (!b || a == b) return a;
  if (!a) return b;
  std::map<unsigned, Snapshot> both = *a;
  for (const auto& [domain, seen] : *b) both[domain] = joined(both[domain], seen);
  return std::make_shared<const std::map<unsigned, Snapshot>>(std::move(both));
}

// What a thread has seen; `fenced` is the part whose plain writes a proxy fence has made visible to asynchronous copies
// and tensor cores (PTX ISA, "Proxies"), `released` the part that a fence has made visible to the whole device. `heard`
// is what atomics told of other clusters, `acquired` the part of it that a fence has let in.
struct Knowledge {
  Snapshot seen, fenced, released;
  Foreign heard, acquired;

  // What crosses clusters; mostly nothing does.
  void learn_of_others(const Knowledge& other) {
    released = joined(released, other.released);
    heard = joined(heard, other.heard);
    acquired = joined(acquired, other.acquired);
  }
};

// A thread as the clocks know it
struct Agent {
  Knowledge knowledge;
  unsigned component = 0;
  Time time = 1;

  void learn(const Knowledge& other, Joiner& join) {
    knowledge.seen = join(knowledge.seen, other.seen);
    knowledge.fenced = join(knowledge.fenced, other.fenced);
    knowledge.learn_of_others(other);
  }
  void learn(unsigned other, Time until, Joiner& join) { knowledge.seen = join(knowledge.seen, other, until); }
  void fence_proxy() {
    Times times = knowledge.seen ? *knowledge.seen : Times();
    raise(times, component, time++);
    if (knowledge.fenced) raise_all(times, *knowledge.fenced);
    knowledge.fenced = std::make_shared<const Times>(std::move(times));
  }
  // Makes the agent's own work visible to the whole device, and `others`, of others' work that it has seen; lets in
  // what atomics told of other clusters.
  void fence_device(unsigned domain, Times others) {
    raise(others, component, time++);
    knowledge.released = joined(knowledge.released, std::make_shared<const Times>(std::move(others)));
    knowledge.acquired = joined(knowledge.acquired, knowledge.heard);
    if (!knowledge.acquired) return;
    const auto own = knowledge.acquired->find(domain);  // of other threads of the cluster
    if (own != knowledge.acquired->end()) knowledge.seen = joined(knowledge.seen, own->second);
  }
};

// What atomic operations on an address have told, each what those before it had
class Told {
 public:
  void update(std::uintptr_t address, unsigned domain, Agent& agent) {
    Knowledge& knowledge = agent.knowledge;
    if (!knowledge.released && !knowledge.acquired && told_.find(address) == told_.end()) return;
    Foreign& told = told_[address];
    knowledge.heard = joined(knowledge.heard, told);
    told = joined(told, knowledge.acquired);
    if (knowledge.released)
      told = joined(told, std::make_shared<const std::map<unsigned, Snapshot>>(
                              std::map<unsigned, Snapshot>{{domain, knowledge.released}}));
  }

 private:
  std::unordered_map<std::uintptr_t, Foreign> told_;
};

// What those who have arrived at a synchronisation object know together
class Gathering {
 public:
  // A release: what the agent did up to now is part of it, what it does next is not.
  void add(Agent& agent) {
    merge(seen_, last_seen_, agent.knowledge.seen);
    merge(fenced_, last_fenced_, agent.knowledge.fenced);
    others_.learn_of_others(agent.knowledge);
    raise(seen_, agent.component, agent.time++);
  }
  void add(unsigned component, Time time) { raise(seen_, component, time); }

  Knowledge publish() {
    last_seen_ = std::make_shared<const Times>(seen_);
    if (!fenced_.empty()) last_fenced_ = std::make_shared<const Times>(fenced_);
    return {last_seen_, last_fenced_, others_.released, others_.heard, others_.acquired};
  }

 private:
  static void merge(Times& times, Snapshot& last, const Snapshot& other) {
    if (!other || other == last) return;
    raise_all(times, *other);
    last = other;
  }

  Times seen_, fenced_;
  Snapshot last_seen_, last_fenced_;
  Knowledge others_;  // of it, what crosses clusters
};

}  // namespace emulator
