// A text as atoms, and the longest name that stands at each place: a row of the vocabulary, a machine, a
// model, a quantization, or a system of the catalogue.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "policy/engines.hpp"
#include "policy/machines.hpp"
#include "policy/scenario.hpp"
#include "policy/scenario_tokens.hpp"

namespace flyball::policy {

inline constexpr double kMaxScenarioNumber = 1e6;
inline constexpr double kMostOfACount = 1000;  // machines, cards, models
inline constexpr std::string_view kMachines = "hardware.cluster.nodes=#";

// The parts between the marks; empty parts are left out.
std::vector<std::string_view> split_at(std::string_view text, char mark);
// The atoms of every name.
const std::set<std::string>& known_words();

// One name and what it stands for: one of the pointers is set.
struct Pattern {
  std::vector<Atom> atoms;
  const ScenarioWord* word = nullptr;
  const Machine* machine = nullptr;
  const ScenarioModel* model = nullptr;
  const ScenarioQuantization* quantization = nullptr;
  const EngineEntry* system = nullptr;
  bool counted = false;  // a number may stand before it
};

struct Match {
  const Pattern* pattern = nullptr;
  std::size_t length = 0;
  double number = 1;
  bool counted = false;  // a number was given
};

// The text that it is made of must outlive it.
class Text {
 public:
  explicit Text(std::string_view text)
      : text_(text), atoms_(tokenize(text)), ranges_(join_numbers(text, atoms_)) {}

  const std::vector<std::string>& ranges() const { return ranges_; }  // sentences

  std::size_t size() const { return atoms_.size(); }
  const std::string& word(std::size_t at) const { return atoms_[at].text; }
  // "" behind a hard break and at the end.
  std::string_view next(std::size_t at) const {
    return at < size() && atoms_[at].before != Break::hard ? std::string_view(atoms_[at].text)
                                                           : std::string_view();
  }
  Break before(std::size_t at) const { return at < size() ? atoms_[at].before : Break::hard; }
  std::string said(std::size_t at, std::size_t length) const;
  void correct(std::size_t at, std::string word) { atoms_[at].text = std::move(word); }
  std::vector<std::string> words() const;

  // Atoms of "of", "of the", "of those".
  std::size_t of_the(std::size_t at) const;
  // Whether one of the signs, each a byte, stands between the atom and the one before it.
  bool has_between(std::size_t at, std::string_view signs) const;

  // The longest name that begins here, with the number of its #, or the count before or behind it.
  Match longest(std::size_t at) const;

 private:
  std::optional<Match> match(const Pattern& pattern, std::size_t at, bool counted) const;
  // Blanks may be left out, and stand only where the name has one.
  static bool joins(Break here, Break wanted, bool number) {
    if (here == Break::hard) return false;
    return here == Break::none || number || wanted != Break::none;
  }

  std::string_view text_;
  std::vector<Atom> atoms_;
  std::vector<std::string> ranges_;
};

}  // namespace flyball::policy
