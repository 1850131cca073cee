// Reads a JSON document that a stranger wrote, under bounds, in one pass: the parser calls back before
// anything nests or grows, so a hostile document never becomes a value.
#pragma once

#include <cstddef>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "config/error.hpp"

namespace flyball {

struct JsonLimits {
  std::size_t depth = 64;       // arrays and objects within one another
  std::size_t nodes = 100'000;  // values, keys not counted
};

// invalid_json with "byte N" in Error::where and in the message: syntax, bad UTF-8, lone surrogates, NaN,
// numbers too large for a double, duplicate keys. json_too_deep, json_too_large. Messages begin with `what`.
Result<nlohmann::json> read_json(std::string_view text, JsonLimits limits = {},
                                 std::string_view what = "The body");

}  // namespace flyball
