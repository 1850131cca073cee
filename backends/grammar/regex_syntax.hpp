// The syntax tree of a regular expression. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/grammar/code_points.hpp"
#include "config/error.hpp"

namespace flyball::grammar {

struct RegexNode {
  enum class Kind : std::uint8_t {
    set,       // one code point of sets[first]
    sequence,  // of `count` nodes, from children[first] on
    choice,    // of the same
    repeat,    // of children[first], least to most times; kUnbounded has no end
    begin,     // of the text
    end,
    ahead,  // children[first] begins to match here, or does not (least 0); only in the outermost sequences
  };
  Kind kind = Kind::sequence;
  std::uint32_t first = 0, count = 0;
  std::uint32_t least = 0, most = 0;
};

struct RegexTree {
  std::vector<RegexNode> nodes;  // children before their parents
  std::vector<std::uint32_t> children;
  std::vector<CodePointSet> sets;
  std::uint32_t root = 0;
};

// Errors as from_regex has them.
Result<RegexTree> parse_regex(std::string_view pattern, std::uint32_t depth);

}  // namespace flyball::grammar
