// JSON as text: strings and numbers written safely.
#pragma once

#include <string>
#include <string_view>

namespace flyball::api {

// `text` quoted and escaped. Bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);
void append_json_number(std::string& out, double value);  // shortest form that reads back; null if not finite

}  // namespace flyball::api
