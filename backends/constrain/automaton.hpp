// The deterministic automaton of a Program, made lazily: its states are sets of configurations, numbered when
// they are first met. It remembers its steps, and forgets them over a bound. Not thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "backends/constrain/program.hpp"

namespace flyball::constrain {

struct AutomatonLimits {
  std::size_t memory = 8 << 20;  // bytes of sets, steps and stacks; more are collected, in some milliseconds
  std::size_t most = 64 << 20;   // the same bytes where matchers and masks hold them
  std::uint32_t configurations = 512;  // of one set; unambiguous grammars have one or two
  std::uint32_t frames = 1 << 16;      // of one stack: deeper than any answer of a model nests
};

// The limit that a step met. The first two are facts about the text and the grammar; `memory` depends on what
// others hold.
enum class Overflow : std::uint8_t { none, configurations, frames, memory };

class Automaton {
 public:
  using SetId = std::uint32_t;
  static constexpr SetId kDead = 0;      // the bytes begin no word
  static constexpr SetId kOverflow = 1;  // the step met a limit; it is not remembered
  static constexpr SetId kUnknown = std::numeric_limits<SetId>::max();
  static constexpr std::uint32_t kWhole = std::numeric_limits<std::uint32_t>::max();

  explicit Automaton(std::shared_ptr<const Program> program, AutomatonLimits limits = {});

  SetId start() const noexcept { return start_; }
  // kOverflow where the step meets a limit. The caller may try once more after collect() if that is `memory`.
  SetId next(SetId from, std::uint8_t byte) {
    const SetId to = steps_[step_of(from, byte)];
    return to != kUnknown ? to : step(from, byte);
  }
  // The latest limit that a step or a view met.
  Overflow met() const noexcept { return met_; }
  // The same as next() if the step is remembered; else kUnknown.
  SetId known_next(SetId from, std::uint8_t byte) const { return steps_[step_of(from, byte)]; }
  bool can_end(SetId id) const { return sets_[id].can_end; }  // the bytes are a word
  // The bytes that begin more of a word.
  grammar::ByteSet bytes_after(SetId id) const;
  // The byte that begins all that goes on, if it is one; it is found to be several without a look at them
  // all.
  std::optional<std::uint8_t> only_byte_after(SetId id) const;

  // The set with only the uppermost `depth` frames of its stacks, and with one count for all counts that
  // `reach` bytes cannot lead to a bound. Words of up to `reach` bytes go on from both alike, unless the walk
  // meets a set that is_cut: then it looked deeper. can_end is not kept. kOverflow as for next().
  SetId view(SetId of, std::uint32_t depth, std::uint32_t reach);
  bool is_cut(SetId id) const { return sets_[id].cut; }

  // collect() forgets all sets but held ones and those in `keep`, which keep their numbers.
  void hold(SetId id) { ++sets_[id].holds; }
  void release(SetId id) { --sets_[id].holds; }
  bool is_full() const noexcept;
  void collect(std::span<const SetId> keep);
  std::uint64_t collections() const noexcept { return collections_; }
  // All work so far, in units of about 10 ns: a configuration looked at, or as much of a new set, of a stack
  // or of a collection.
  std::uint64_t work() const noexcept { return work_; }

  const Program& program() const noexcept { return *program_; }
  const AutomatonLimits& limits() const noexcept { return limits_; }
  std::size_t memory() const noexcept;

 private:
  using StackId = std::uint32_t;
  static constexpr StackId kBottom = 0;  // the end of the word
  static constexpr StackId kCut = 1;     // frames that a view leaves out
  static constexpr StackId kNoFrame = std::numeric_limits<StackId>::max();
  static constexpr std::uint32_t kCounter = 1U << 31U;  // in Frame::what
  // Counts that stand for many: far from both bounds, the least one reached or not.
  static constexpr std::uint32_t kInside = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint32_t kBelow = kInside - 1;

  // A state to return to, or kCounter | a counted procedure and the number of its words before this one.
  struct Frame {
    std::uint32_t what = 0, count = 0;
    StackId parent = kBottom;
    std::uint32_t depth = 1;  // frames of the stack
    bool operator==(const Frame&) const = default;
  };
  struct FrameHash {
    std::size_t operator()(const Frame& f) const noexcept {
      std::uint64_t h = (std::uint64_t{f.what} << 32U | f.parent) * 0x9E3779B97F4A7C15U;
      h ^= (h >> 32U) + f.count;
      return (h * 0xD6E8FEB86659FD93U) >> 16U;
    }
  };
  struct Configuration {
    StateId state = 0;
    StackId stack = kBottom;
    auto operator<=>(const Configuration&) const = default;
  };
  struct Set {
    std::vector<Configuration> configurations;  // in order; those whose state has edges
    bool can_end = false, cut = false;
    std::uint32_t holds = 0;
  };

  std::size_t step_of(SetId from, std::uint8_t byte) const {
    return std::size_t{from} * program_->classes + program_->class_of[byte];
  }
  SetId step(SetId from, std::uint8_t byte);
  void begin();
  void visit(StateId state, StackId stack);
  void leave(StackId stack);
  void close();
  SetId intern();
  SetId add_set(Set set);
  StackId push(std::uint32_t what, std::uint32_t count, StackId parent);
  void meet(Overflow limit) {
    failed_ = true;
    met_ = limit;
  }
  std::uint32_t far_count(const Frame& frame, std::uint32_t reach) const;
  std::size_t bytes_of(const Set& set) const;
  static std::uint64_t hash(const Set& set);

  std::shared_ptr<const Program> program_;
  AutomatonLimits limits_;
  std::vector<Set> sets_;
  std::vector<SetId> free_sets_;
  std::vector<SetId> steps_;  // [set][class]
  std::unordered_multimap<std::uint64_t, SetId> numbers_;
  std::unordered_map<std::uint64_t, SetId> views_;  // by set and depth, for reach_
  std::uint32_t reach_ = 0;
  std::vector<Frame> frames_;
  std::vector<StackId> free_frames_;
  std::unordered_map<Frame, StackId, FrameHash> stacks_;
  SetId start_ = kDead;
  std::size_t used_ = 0;     // bytes of the sets
  std::size_t full_at_ = 0;  // bytes at which to collect
  Overflow met_ = Overflow::none;
  std::uint64_t collections_ = 0, work_ = 0;
  // Scratch space of one step.
  Set made_;
  bool failed_ = false;  // the step met a limit
  std::vector<Configuration> visited_;
  std::vector<std::uint64_t> marks_;  // a hash set of what is in visited_: the round, and the place there
  std::uint32_t round_ = 0;
  std::vector<Frame> cut_frames_;
};

}  // namespace flyball::constrain
