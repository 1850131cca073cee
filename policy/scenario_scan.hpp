// One pass over a text: where a denial or an alternative holds, and what was understood so far. The readers
// of hardware, of models and of the load share it.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "policy/facts.hpp"
#include "policy/scenario.hpp"
#include "policy/scenario_text.hpp"

namespace flyball::policy {

// Source of a fact that holds unless other words or facts say it better.
inline constexpr const char* kGuess = "guess";

// Between two machines or models. The advice is for the first.
inline constexpr std::array<std::string_view, 4> kAlternatives{"or", "vs", "versus", "oder"};

// "model.context=#*1024" with 8: "model.context=8192".
std::string filled(std::string_view assignment, double number);
std::string gib_text(double gib);

// The value that words give to one fact.
struct Saying {
  std::string text;  // its value, as "24GiB"
  FactValue value;
  std::string words;  // that say it
  bool guess = false;
};

// The values of all facts so far. Of words that contradict each other the first hold, and a note names both.
class Sayings {
 public:
  explicit Sayings(Reading& reading) : reading_(reading) {}

  // "hardware.gpu.memory~=24GiB". Values that the fact cannot have are left out.
  void add(std::string_view assignment, const std::string& words);
  const Saying* get(std::string_view name) const;
  void forget(std::string_view name);
  void set(Facts& facts) const;
  const std::vector<std::string>& classes() const { return classes_; }

 private:
  void settle(const FactInfo& fact, FactId id, Saying said);

  Reading& reading_;
  std::map<FactId, Saying> by_fact_;
  std::vector<std::string> classes_;  // that are said outright
};

// `words` and `reading` must outlive it.
class Scan {
 public:
  Scan(std::string_view words, Reading& of) : text(words), reading(of), sayings(of) {}

  // Lists the atoms as understood. Returns `length`.
  std::size_t understand(std::size_t at, std::size_t length, std::string facts);
  // Skips an atom that no pattern has. Neighbours that nothing separates are one skipped word.
  void skip(std::size_t at);
  // Ends the skipped word.
  void flush();

  Text text;
  Reading& reading;
  Sayings sayings;
  bool negated = false, alternative = false;  // "no", "or": of the atoms that follow in the phrase
  bool in_model_name = false;                 // the last atom may be the beginning of a model's name

 private:
  bool skipping_ = false;
  std::size_t skip_begin_ = 0, skip_end_ = 0;
};

}  // namespace flyball::policy
