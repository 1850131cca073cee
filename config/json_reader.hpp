// Reads a JSON document that a stranger wrote, under bounds, in one pass: the parser calls back before
// anything nests or grows, so a hostile document never becomes a value.
#pragma once

#include <cstddef>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "config/error.hpp"
#include "config/packed_json.hpp"

namespace flyball {

struct JsonLimits {
  std::size_t depth = 64;       // arrays and objects within one another
  std::size_t nodes = 100'000;  // values, keys not counted
};

// invalid_json with "byte N" in Error::where and in the message: syntax, bad UTF-8, lone surrogates, NaN,
// numbers too large for a double, duplicate keys. json_too_deep, json_too_large. Messages begin with `what`.
Result<nlohmann::json> read_json(std::string_view text, JsonLimits limits = {},
                                 std::string_view what = "The body");

// Longest text that read_packed takes: packed, JSON grows less than eightfold ("[]" takes 13 bytes).
inline constexpr std::size_t kMaxPackedText = PackedJson::kMaxBytes / 8;

// The same document, with the same errors, as packed bytes: members stay in the document's order.
// json_too_large also for text longer than kMaxPackedText.
Result<PackedJson> read_packed(std::string_view text, JsonLimits limits = {},
                               std::string_view what = "The body");

}  // namespace flyball
