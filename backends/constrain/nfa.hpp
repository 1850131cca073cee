// An automaton with alternatives and empty arcs, and its determinization into states of a Program. Pure.
#pragma once

#include <cstdint>
#include <expected>
#include <limits>
#include <vector>

#include "backends/constrain/program.hpp"

namespace flyball::constrain {

class Nfa {
 public:
  using Place = std::uint32_t;
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  enum class ArcKind : std::uint8_t { empty, bytes, call };
  struct Arc {
    ArcKind kind = ArcKind::empty;
    std::uint8_t from = 0, to = 0;
    ProcedureId procedure = 0;
    Place target = 0;
    std::uint32_t next = kNone;  // of the arcs of the same place
  };

  Place add_place() {
    heads_.push_back(kNone);
    return static_cast<Place>(heads_.size() - 1);
  }
  void empty(Place from, Place to) { add(from, {.target = to}); }
  void bytes(Place from, std::uint8_t first, std::uint8_t last, Place to) {
    add(from, {.kind = ArcKind::bytes, .from = first, .to = last, .target = to});
  }
  void call(Place from, ProcedureId procedure, Place to) {
    add(from, {.kind = ArcKind::call, .procedure = procedure, .target = to});
  }

  std::size_t places() const noexcept { return heads_.size(); }
  std::uint32_t first_arc(Place place) const { return heads_[place]; }
  const Arc& arc(std::uint32_t index) const { return arcs_[index]; }
  std::size_t memory() const noexcept { return heads_.size() * sizeof(Place) + arcs_.size() * sizeof(Arc); }

 private:
  void add(Place from, Arc arc) {
    arc.next = heads_[from];
    heads_[from] = static_cast<std::uint32_t>(arcs_.size());
    arcs_.push_back(arc);
  }

  std::vector<std::uint32_t> heads_;
  std::vector<Arc> arcs_;
};

enum class Exhausted : std::uint8_t { fuel, memory };

// Appends the states for the nonempty words that lead from `begin` to `end` to the program, whose states have
// no end entry yet. Returns the first of them, which is not accepting and which nothing leads back to. Stops
// when the fuel is spent, or the program and the subsets take more than `memory` bytes.
std::expected<StateId, Exhausted> determinize(const Nfa& nfa, Nfa::Place begin, Nfa::Place end, Program& into,
                                              grammar::Fuel& fuel, std::size_t memory);

}  // namespace flyball::constrain
