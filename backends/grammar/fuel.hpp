// Bounds of the work of making and compiling a grammar. Code charges its fuel before it works.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flyball::grammar {

// A step is about 10 ns of work. Fuel that runs out stays empty, and its user throws away the unfinished
// grammar.
class Fuel {
 public:
  explicit Fuel(std::uint64_t steps) noexcept : left_(steps) {}
  bool spend(std::uint64_t steps = 1) noexcept {
    left_ = steps <= left_ ? left_ - steps : 0;
    return left_ > 0;
  }
  bool is_empty() const noexcept { return left_ == 0; }
  std::uint64_t left() const noexcept { return left_; }

 private:
  std::uint64_t left_;
};

struct Limits {
  std::uint64_t steps = 10'000'000;  // Fuel to read and compile one constraint: at most about 100 ms
  std::size_t memory = 16 << 20;  // bytes of the Grammar, of the automaton of each rule, and of the Program
  std::uint32_t depth = 64;       // of nested schemas, groups and alternatives
  std::uint32_t text = 1 << 20;   // bytes of the source
};

}  // namespace flyball::grammar
