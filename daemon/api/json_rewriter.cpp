#include "daemon/api/json_rewriter.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "daemon/api/json_text.hpp"

namespace flyball::api {
namespace {

// The length of what append_json_string writes.
std::size_t length_of_string(std::string_view utf8) noexcept {
  std::size_t length = utf8.size() + std::string_view("\"\"").size();
  for (const char c : utf8) {
    if (c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t')
      length += 1;
    else if (static_cast<unsigned char>(c) < 0x20)
      length += std::string_view("\\u0000").size() - 1;
  }
  return length;
}

// The length of a value as JSON: of a container as the client wrote it, of any other without needless
// escapes.
std::size_t length_of(JsonView value) {
  std::string json;
  switch (value.kind()) {
    case JsonKind::array:
    case JsonKind::object:
      return value.json_bytes();
    case JsonKind::string:
      return length_of_string(value.text());
    case JsonKind::digits:
      return value.text().size();
    case JsonKind::integer:
      return std::to_string(value.as_integer()).size();
    case JsonKind::real:
      append_json_number(json, value.as_double());
      return json.size();
    case JsonKind::no:
      return std::string_view("false").size();
    case JsonKind::null:
    case JsonKind::yes:
      break;
  }
  return std::string_view("null").size();
}

}  // namespace

// A value has a comma or the last bracket of its container behind it.
void JsonRewriter::count(std::size_t json_bytes) {
  if (!open_.empty()) open_.back() += json_bytes + 1;
}

void JsonRewriter::open(JsonKind array_or_object) {
  out_.open(array_or_object);
  open_.push_back(1);
}

void JsonRewriter::close() {
  const std::size_t length = std::max(open_.back(), std::string_view("[]").size());
  open_.pop_back();
  out_.close(static_cast<std::uint32_t>(length));
  count(length);
}

void JsonRewriter::key(std::string_view name) {
  out_.key(name);
  open_.back() += length_of_string(name) + 1;
}

void JsonRewriter::string(std::string_view text) {
  out_.string(text);
  count(length_of_string(text));
}

void JsonRewriter::boolean(bool value) {
  out_.boolean(value);
  count(std::string_view(value ? "true" : "false").size());
}

void JsonRewriter::value(JsonView value) {
  out_.value(value);
  count(length_of(value));
}

}  // namespace flyball::api
