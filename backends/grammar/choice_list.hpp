// A list of strings as a grammar: a word is one of them. Pure.
#pragma once

#include <span>
#include <string>

#include "backends/grammar/fuel.hpp"
#include "backends/grammar/grammar.hpp"
#include "config/error.hpp"

namespace flyball::grammar {

// Fails with invalid_value for an empty list, and unsupported_feature for one over the limits; the error's
// `where` is then the choice.
Result<Grammar> choice_list(std::span<const std::string> choices, Fuel& fuel, const Limits& limits);

}  // namespace flyball::grammar
