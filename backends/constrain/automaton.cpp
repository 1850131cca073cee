#include "backends/constrain/automaton.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace flyball::constrain {
namespace {

// Work of a new set beside its configurations: its memory, index and row of steps (0.2 us measured).
constexpr std::uint64_t kNewSet = 20, kClassesPerWork = 8;
// Work of a frame, and of a set or frame that a collection looks at: an entry of a hash table, about 40 ns.
constexpr std::uint64_t kEntry = 4;

}  // namespace

Automaton::Automaton(std::shared_ptr<const Program> program, AutomatonLimits limits)
    : program_(std::move(program)), limits_(limits), full_at_(limits.memory) {
  marks_.resize(std::bit_ceil(std::size_t{limits_.configurations} * 2));
  // Nothing is touched before it is used; to move 2 MiB of steps took 6 ms, page faults above all.
  steps_.reserve(limits_.memory / sizeof(SetId));
  frames_.resize(kCut + 1);
  for (const SetId fixed : {kDead, kOverflow}) {
    sets_.emplace_back().holds = 1;
    steps_.resize(steps_.size() + program_->classes, fixed);
  }
  begin();
  made_.can_end = program_->nullable;
  visit(program_->procedures[0].start, kBottom);
  close();
  start_ = failed_ ? kOverflow : intern();
  hold(start_);
}

grammar::ByteSet Automaton::bytes_after(SetId id) const {
  grammar::ByteSet out;
  for (const auto& [state, stack] : sets_[id].configurations) {
    for (const auto& edge : program_->edges_of(state)) {
      for (std::size_t byte = edge.from; byte <= edge.to; ++byte) out.set(byte);
    }
  }
  return out;
}

std::optional<std::uint8_t> Automaton::only_byte_after(SetId id) const {
  std::optional<std::uint8_t> only;
  for (const auto& [state, stack] : sets_[id].configurations) {
    for (const auto& edge : program_->edges_of(state)) {
      if (edge.from != edge.to || only.value_or(edge.from) != edge.from) return std::nullopt;
      only = edge.from;
    }
  }
  return only;
}

Automaton::SetId Automaton::step(SetId from, std::uint8_t byte) {
  begin();
  work_ += 1 + sets_[from].configurations.size();
  std::uint8_t first = 0, last = 255;  // the bytes around this one that are in the same edges
  for (const auto& [state, stack] : sets_[from].configurations) {
    const auto edges = program_->edges_of(state);
    const auto edge = std::ranges::lower_bound(edges, byte, {}, &Program::Edge::to);
    if (edge != edges.end() && edge->from <= byte) {
      first = std::max(first, edge->from);
      last = std::min(last, edge->to);
      visit(edge->next, stack);
      continue;
    }
    if (edge != edges.end()) last = std::min(last, static_cast<std::uint8_t>(edge->from - 1));
    if (edge != edges.begin()) first = std::max(first, static_cast<std::uint8_t>((edge - 1)->to + 1));
  }
  close();
  if (failed_) return kOverflow;
  const SetId to = intern();
  std::fill(steps_.begin() + static_cast<std::ptrdiff_t>(step_of(from, first)),
            steps_.begin() + static_cast<std::ptrdiff_t>(step_of(from, last)) + 1, to);
  return to;
}

void Automaton::begin() {
  made_.configurations.clear();
  made_.can_end = made_.cut = failed_ = false;
  visited_.clear();
  if (++round_ == 0) {
    std::ranges::fill(marks_, 0);
    round_ = 1;
  }
}

void Automaton::visit(StateId state, StackId stack) {
  const std::uint64_t hash = (std::uint64_t{state} << 32U | stack) * 0x9E3779B97F4A7C15U;
  std::size_t at = (hash >> 32U) & (marks_.size() - 1);
  while (marks_[at] >> 32U == round_) {
    if (visited_[marks_[at] & 0xFFFFFFFFU] == Configuration{state, stack}) return;
    at = (at + 1) & (marks_.size() - 1);
  }
  if (visited_.size() == limits_.configurations) return meet(Overflow::configurations);
  marks_[at] = std::uint64_t{round_} << 32U | visited_.size();
  visited_.push_back({state, stack});
}

// A procedure has read a word.
void Automaton::leave(StackId stack) {
  while (!failed_) {
    ++work_;
    if (stack == kBottom) {
      made_.can_end = true;
      return;
    }
    if (stack == kCut) {
      made_.cut = true;
      return;
    }
    const Frame frame = frames_[stack];
    if ((frame.what & kCounter) == 0) return visit(frame.what, frame.parent);
    const auto& repeat = program_->procedures[frame.what & ~kCounter];
    std::uint32_t count = frame.count;
    bool may_go_on = true, may_end = count == kInside;
    if (count != kInside && count != kBelow) {
      ++count;
      may_end = count >= repeat.least;
      may_go_on = count < repeat.most;
      if (may_end && repeat.most == grammar::kUnbounded) count = kInside;
    }
    if (may_go_on) {
      const StackId again = count == frame.count ? stack : push(frame.what, count, frame.parent);
      if (again != kNoFrame) visit(repeat.start, again);
    }
    if (!may_end) return;
    stack = frame.parent;
  }
}

// Follows calls and returns until only bytes lead on.
void Automaton::close() {
  for (std::size_t i = 0; i < visited_.size() && !failed_; ++i) {
    const auto [state, stack] = visited_[i];
    if (program_->states[state].accepting) leave(stack);
    for (const auto& call : program_->calls_of(state)) {
      StackId to = stack;
      if (!program_->states[call.next].tail) to = push(call.next, 0, to);
      const auto& callee = program_->procedures[call.procedure];
      if (callee.counted && to != kNoFrame) to = push(kCounter | call.procedure, 0, to);
      if (to != kNoFrame) visit(callee.start, to);
    }
    if (!program_->edges_of(state).empty()) made_.configurations.push_back({state, stack});
  }
  work_ += visited_.size();
  std::ranges::sort(made_.configurations);
}

std::uint64_t Automaton::hash(const Set& set) {
  std::uint64_t h = set.configurations.size() * 4 + (set.can_end ? 2 : 0) + (set.cut ? 1 : 0);
  for (const auto& [state, stack] : set.configurations) {
    h = (h ^ (std::uint64_t{state} << 32U | stack)) * 0x9E3779B97F4A7C15U;
    h ^= h >> 29U;
  }
  return h;
}

// The number of made_.
Automaton::SetId Automaton::intern() {
  if (made_.configurations.empty() && !made_.can_end && !made_.cut) return kDead;
  const std::uint64_t key = hash(made_);
  const auto [first, last] = numbers_.equal_range(key);
  for (auto at = first; at != last; ++at) {
    const Set& set = sets_[at->second];
    if (set.can_end == made_.can_end && set.cut == made_.cut && set.configurations == made_.configurations) {
      return at->second;
    }
  }
  const SetId id =
      add_set({.configurations = made_.configurations, .can_end = made_.can_end, .cut = made_.cut});
  numbers_.emplace(key, id);
  return id;
}

Automaton::SetId Automaton::add_set(Set set) {
  used_ += bytes_of(set);
  work_ += kNewSet + program_->classes / kClassesPerWork;
  if (free_sets_.empty()) {
    sets_.push_back(std::move(set));
    steps_.resize(steps_.size() + program_->classes, kUnknown);
    return static_cast<SetId>(sets_.size() - 1);
  }
  const SetId id = free_sets_.back();
  free_sets_.pop_back();
  sets_[id] = std::move(set);
  return id;
}

// kNoFrame, and an overflow, where the stack is too deep or all stacks take too much.
Automaton::StackId Automaton::push(std::uint32_t what, std::uint32_t count, StackId parent) {
  const Frame frame{
      .what = what, .count = count, .parent = parent, .depth = parent > kCut ? frames_[parent].depth + 1 : 1};
  const auto known = stacks_.find(frame);
  if (known != stacks_.end()) return known->second;
  if (frame.depth > limits_.frames || memory() > limits_.most) {
    meet(frame.depth > limits_.frames ? Overflow::frames : Overflow::memory);
    return kNoFrame;
  }
  work_ += kEntry;
  StackId id = kNoFrame;
  if (free_frames_.empty()) {
    id = static_cast<StackId>(frames_.size());
    frames_.push_back(frame);
  } else {
    id = free_frames_.back();
    free_frames_.pop_back();
    frames_[id] = frame;
  }
  stacks_.emplace(frame, id);
  return id;
}

std::uint32_t Automaton::far_count(const Frame& frame, std::uint32_t reach) const {
  if ((frame.what & kCounter) == 0 || frame.count >= kBelow) return frame.count;
  const auto& repeat = program_->procedures[frame.what & ~kCounter];
  const std::uint64_t furthest = std::uint64_t{frame.count} + reach;  // each word takes a byte at least
  if (furthest < repeat.least) return kBelow;
  if (frame.count + 1U >= repeat.least && (repeat.most == grammar::kUnbounded || furthest < repeat.most)) {
    return kInside;
  }
  return frame.count;
}

Automaton::SetId Automaton::view(SetId of, std::uint32_t depth, std::uint32_t reach) {
  if (of == kDead || of == kOverflow) return of;
  if (reach != reach_) views_.clear();
  reach_ = reach;
  const std::uint64_t key = std::uint64_t{of} << 32U | depth;
  const auto known = views_.find(key);
  if (known != views_.end()) return known->second;
  begin();
  for (const auto& [state, stack] : sets_[of].configurations) {
    cut_frames_.clear();
    StackId at = stack;
    while (at > kCut && cut_frames_.size() < depth) {
      cut_frames_.push_back(frames_[at]);
      at = frames_[at].parent;
    }
    StackId top = at == kBottom ? kBottom : kCut;
    for (auto frame = cut_frames_.rbegin(); frame != cut_frames_.rend() && !failed_; ++frame) {
      top = push(frame->what, far_count(*frame, reach), top);
    }
    if (failed_) return kOverflow;
    work_ += 1 + cut_frames_.size();
    made_.configurations.push_back({state, top});
  }
  auto& configurations = made_.configurations;
  std::ranges::sort(configurations);
  configurations.erase(std::ranges::unique(configurations).begin(), configurations.end());
  const SetId id = intern();
  views_.emplace(key, id);
  return id;
}

std::size_t Automaton::bytes_of(const Set& set) const {
  constexpr std::size_t kIndex = 48;  // of an entry of numbers_
  return sizeof(Set) + set.configurations.capacity() * sizeof(Configuration) +
         program_->classes * sizeof(SetId) + kIndex;
}

std::size_t Automaton::memory() const noexcept {
  constexpr std::size_t kFrame = 2 * sizeof(Frame) + 40, kView = 48;
  return used_ + stacks_.size() * kFrame + views_.size() * kView;
}

bool Automaton::is_full() const noexcept {
  return memory() > full_at_;
}

void Automaton::collect(std::span<const SetId> keep) {
  ++collections_;
  work_ += kEntry * (sets_.size() + frames_.size() + views_.size()) + steps_.size() / kClassesPerWork;
  views_.clear();
  numbers_.clear();
  for (const SetId id : keep) hold(id);
  std::vector<bool> lives(frames_.size(), false);
  free_sets_.clear();
  used_ = 0;
  for (SetId id = kOverflow + 1; id < sets_.size(); ++id) {
    Set& set = sets_[id];
    if (set.holds == 0) {
      set = {};
      free_sets_.push_back(id);
      continue;
    }
    used_ += bytes_of(set);
    numbers_.emplace(hash(set), id);
    for (const auto& [state, stack] : set.configurations) {
      for (StackId at = stack; at > kCut && !lives[at]; at = frames_[at].parent) lives[at] = true;
    }
  }
  for (const SetId id : keep) release(id);
  std::fill(steps_.begin() + static_cast<std::ptrdiff_t>((kOverflow + 1) * program_->classes), steps_.end(),
            kUnknown);
  stacks_.clear();
  free_frames_.clear();
  for (StackId id = kCut + 1; id < frames_.size(); ++id) {
    if (lives[id]) {
      stacks_.emplace(frames_[id], id);
    } else {
      free_frames_.push_back(id);
    }
  }
  // Held sets may exceed the bound by themselves: the next collection waits until as much again is made, so
  // that collections stay rare.
  full_at_ = std::max(limits_.memory, memory() + std::min(memory(), limits_.memory));
}

}  // namespace flyball::constrain
