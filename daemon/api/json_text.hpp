// JSON as text: strings written safely, and members of an already validated document cut out verbatim, so
// that what a client sent reaches the chat template with its own key order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flyball::api {

// `text` quoted and escaped. Bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);
void append_json_number(std::string& out, double value);  // shortest form that reads back; null if not finite

// Precondition of these: `json` has been accepted by read_json. Views into it, in its order; keys with their
// quotes and escapes as sent.
struct JsonMember {
  std::string_view key, value;
};
std::vector<JsonMember> json_members(std::string_view object);
std::vector<std::string_view> json_elements(std::string_view array);

}  // namespace flyball::api
