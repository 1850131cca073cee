// GBNF, the grammars of llama.cpp, read as llama.cpp reads them. Pure.
#pragma once

#include <string_view>

#include "backends/grammar/fuel.hpp"
#include "backends/grammar/grammar.hpp"
#include "config/error.hpp"

namespace flyball::grammar {

// A word begins at the rule "root". Characters are code points, and words UTF-8. Fails with invalid_value
// (the error's `where` is a line and column) for a text that is no grammar, and with unsupported_feature for
// one over the limits. Left recursion is found when the grammar is compiled.
Result<Grammar> read_gbnf(std::string_view source, Fuel& fuel, const Limits& limits);

}  // namespace flyball::grammar
