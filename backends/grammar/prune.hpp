// Removes from a grammar what no word can come of. Pure.
#pragma once

#include <optional>
#include <vector>

#include "backends/grammar/grammar.hpp"

namespace flyball::grammar {

// The same language by nodes and rules of which each has a word, so that a word that was begun can be ended;
// nullopt where there is no word at all. Every rule of `grammar` is defined.
std::optional<Grammar> prune(Grammar grammar);

// True for each rule that has a word, by RuleId. Every rule of `grammar` is defined.
std::vector<bool> rules_with_words(const Grammar& grammar);

}  // namespace flyball::grammar
