// A machine and a load that exist only in words ("one RTX 4090, chat, 8K"), as facts. docs/advise.md lists
// the words.
#pragma once

#include <span>
#include <string_view>

#include "policy/facts.hpp"

namespace flyball::policy {

// One row of the vocabulary: what may be written, and the facts it sets, as docs/advise.md shows them.
struct ScenarioWord {
  std::string_view words;   // alternatives with a bar between; # is a number
  std::string_view facts;   // "name=value", with a blank between; # is that number, ~= a guess
  std::string_view remark;  // "" or what else there is to know
};
std::span<const ScenarioWord> scenario_vocabulary();

// Sets the facts that the words stand for, source "words", or "guess" (of "laptop": no GPU) for what other
// words and facts may say better. invalid_value: the first word that stands for nothing, with the nearest
// that does; words that contradict each other.
Result<void> read_scenario(std::string_view words, Facts& facts);

// What a description leaves open and a machine never does, source "default": the other counts of GPUs, one
// memory or two, one machine, a chat that may go anywhere; and which of this release's engines such a machine
// would have. Derived facts last. invalid_value: counts of GPUs that contradict each other.
Result<void> complete_scenario(Facts& facts);

}  // namespace flyball::policy
