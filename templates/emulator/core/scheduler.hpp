// Which fiber runs next, and what happens when none can.
#pragma once

#include <algorithm>

#include "machine.hpp"

namespace emulator {

class Scheduler {
 public:
  static constexpr std::size_t kStackBytes = 256 << 10;
  Context main;

  void make_ready(Fiber* fiber) {
    fiber->wait = Wait();
    ready_.push_back(fiber);
  }

  // Asynchronous work that happens some time on its own
  void add_job(std::function<void()> job) { jobs_.push_back(std::move(job)); }
  bool has_jobs() const { return !jobs_.empty(); }

  // The running fiber stops until somebody makes it ready.
  void wait(const Wait& why) {
    Fiber* self = machine.current;
    self->wait = why;
    Fiber* next = pick();
    if (next != self) run(&self->context, next);
  }

  // The running fiber lets others go first: it may be waiting for them in a loop.
  void yield() {
    Fiber* self = machine.current;
    ready_.push_back(self);
    Fiber* next = pick();
    if (next != self) run(&self->context, next);
  }

  // The running fiber has ended: does not return. The main context takes over when its cluster has ended too.
  void leave(bool cluster_ended) {
    Fiber* self = machine.current;
    if (cluster_ended) {
      machine.current = nullptr;
      switch_context(self->context, main);
    }
    run(&self->context, pick());
  }

  // From the main context: runs fibers until a cluster has ended.
  void run_until_a_cluster_ends() {
    Fiber* next = pick();
    machine.current = next;
    switch_context(main, next->context);
  }

  bool idle() const { return ready_.empty() && jobs_.empty(); }

  // Lands all work that is still under way.
  void finish_jobs() {
    while (!jobs_.empty()) run_job(0);
  }

 private:
  static void run(Context* from, Fiber* next) {
    machine.current = next;
    switch_context(*from, next->context);
  }

  Fiber* pick() {
    for (;;) {
      if (machine.config.asynchronous == Asynchronous::kRandom && !jobs_.empty() && machine.random() % 4 == 0)
        run_job(machine.random() % jobs_.size());
      if (!ready_.empty()) return take();
      if (jobs_.empty()) report_deadlock();
      run_job(machine.config.asynchronous == Asynchronous::kRandom ? machine.random() % jobs_.size() : 0);
    }
  }

  Fiber* take() {
    Fiber* fiber;
    if (machine.config.schedule == Schedule::kFifo) {
      fiber = ready_.front();
      ready_.pop_front();
      return fiber;
    }
    if (machine.config.schedule == Schedule::kRandom)
      std::swap(ready_[machine.random() % ready_.size()], ready_.back());
    fiber = ready_.back();
    ready_.pop_back();
    return fiber;
  }

  void run_job(std::size_t index) {
    std::function<void()> job = std::move(jobs_[index]);
    jobs_.erase(jobs_.begin() + long(index));
    job();
  }

  [[noreturn]] static void report_deadlock();

  std::deque<Fiber*> ready_;
  std::deque<std::function<void()>> jobs_;
};

inline Scheduler scheduler;
inline std::vector<Cluster*> resident_clusters;

inline std::string describe_ranges(const std::vector<unsigned>& numbers) {
  constexpr int kShown = 4;
  std::string text;
  int shown = 0;
  for (std::size_t i = 0; i < numbers.size(); ++shown) {
    if (shown == kShown) return text + ", … (" + std::to_string(numbers.size()) + " in all)";
    std::size_t j = i;
    while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[i]);
    if (j > i) text += "-" + std::to_string(numbers[j]);
    i = j + 1;
  }
  return text;
}

// Threads of one block that wait for the same thing
struct Waiters {
  std::string what, detail;
  int line;
  std::vector<unsigned> threads;
};

// Those who wait for registers come first, then those who wait for a barrier: others mostly wait for them.
inline std::vector<Waiters> waiters_of(const Block& block) {
  std::vector<Waiters> groups;
  for (const Fiber& fiber : block.fibers) {
    if (fiber.done) continue;
    const Wait& wait = fiber.wait;
    const std::string what = wait.what == nullptr ? "?" : wait.what;
    const std::string detail = wait.detail == nullptr ? "" : wait.detail(wait.object);
    const auto same = [&](const Waiters& known) {
      return known.line == wait.line && known.what == what && known.detail == detail;
    };
    auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group == groups.end()) group = groups.insert(group, {what, detail, wait.line, {}});
    group->threads.push_back(fiber.linear);
  }
  const auto rank = [](const Waiters& group) {
    return group.what == "register_acquire" ? 0 : group.detail.empty() ? 2 : 1;
  };
  std::stable_sort(groups.begin(), groups.end(), [&](const Waiters& a, const Waiters& b) { return rank(a) < rank(b); });
  return groups;
}

// Of the resident blocks, one tells the story.
inline void Scheduler::report_deadlock() {
  const Block* block = nullptr;
  for (const Cluster* cluster : resident_clusters)
    for (const Block* candidate : cluster->blocks)
      if (block == nullptr || candidate->rank < block->rank) block = candidate->live > 0 ? candidate : block;
  std::string message = "nothing can run any more in block " + describe(block->index) + ": ";
  std::vector<Site> sites;
  const std::vector<Waiters> groups = waiters_of(*block);
  for (const Waiters& group : groups) {
    message += (sites.empty() ? "threads " : "; threads ") + describe_ranges(group.threads) + " wait in " + group.what +
               (group.detail.empty() ? "" : " (" + group.detail + ")") + " at {" + std::to_string(sites.size()) + "}";
    sites.push_back(Site::of_line(group.line));
  }
  const bool registers = !groups.empty() && groups[0].what == "register_acquire";
  stop_with_report(registers ? "register-budget" : "deadlock", message, sites);
}

}  // namespace emulator
