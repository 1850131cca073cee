// JSON as text: strings and numbers written safely.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "config/packed_json.hpp"

namespace flyball::api {

// `text` quoted and escaped. Bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);
// The same without its quotes: what a part of a string becomes. Parts are cut at cut_of_text().
void append_json_text(std::string& out, std::string_view text);
// The bytes that append_json_text() appends.
std::size_t json_text_bytes(std::string_view text) noexcept;
// The place to cut `text` at so that no character is cut: at most `at`, and above `at` - 4. text.size() if
// that is less.
std::size_t cut_of_text(std::string_view text, std::size_t at) noexcept;
// The value as a line of JSON with blanks behind commas and colons, as Python writes it and models have read
// it.
// {"a": 1, "b": [2, 3]}: members keep their order.
void append_json(std::string& out, JsonView value);
void append_json_number(std::string& out, double value);  // shortest form that reads back; null if not finite

}  // namespace flyball::api
