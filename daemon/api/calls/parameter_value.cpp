#include "daemon/api/calls/parameter_value.hpp"

#include <algorithm>

#include "daemon/api/calls/json_scanner.hpp"
#include "daemon/api/calls/python_literal.hpp"
#include "daemon/api/json_text.hpp"

namespace flyball::api::calls {
namespace {

constexpr ValueTypes kNoTypes{false, false, false, false, false, false, false, false};

void allow(ValueTypes& types, std::string_view name) {
  types.string |= name == "string";
  types.integer |= name == "integer" || name == "number";
  types.number |= name == "number";
  types.boolean |= name == "boolean";
  types.null |= name == "null";
  types.array |= name == "array";
  types.object |= name == "object";
}

void allow(ValueTypes& types, const ValueTypes& more) {
  types.string |= more.string;
  types.integer |= more.integer;
  types.number |= more.number;
  types.boolean |= more.boolean;
  types.null |= more.null;
  types.array |= more.array;
  types.object |= more.object;
}

ValueTypes types_within(JsonView schema, int depth) {
  if (!schema.is_object() || depth > 8) return {};
  ValueTypes types = kNoTypes;
  bool known = true;
  if (const JsonView type = schema.find("type"); type.is_string()) {
    allow(types, type.text());
  } else if (type.is_array()) {
    for (const auto& [key, one] : type.members())
      if (one.is_string()) allow(types, one.text());
  } else if (const JsonView values = schema.find("enum"); values.is_array()) {
    for (const auto& [key, one] : values.members()) allow(types, one.type_name());
  } else if (const JsonView value = schema.find("const")) {
    allow(types, value.type_name());
  } else {
    known = false;
    for (const std::string_view union_of : {"anyOf", "oneOf"})
      if (const JsonView ways = schema.find(union_of); ways.is_array()) {
        for (const auto& [key, way] : ways.members()) allow(types, types_within(way, depth + 1));
        known = true;
        break;
      }
  }
  types.other = types.integer || types.boolean || types.null || types.array || types.object;
  return known ? types : ValueTypes{};
}

bool allows(const ValueTypes& types, char first) {
  switch (first) {
    case '{':
      return types.object;
    case '[':
      return types.array;
    case 't':
    case 'f':
      return types.boolean;
    case 'n':
      return types.null;
    case '"':
      // Among strings alone, quotes are part of the text.
      return types.string && types.number && types.boolean && types.null && types.array && types.object;
    default:
      return types.integer;
  }
}

bool is_integer(std::string_view json) {
  return json.find_first_not_of("-0123456789") == std::string_view::npos;
}

}  // namespace

ValueTypes types_of(JsonView schema) {
  return types_within(schema, 0);
}

ValueTypes types_of_parameter(JsonView function, std::string_view name) {
  for (const std::string_view step : {"parameters", "properties"}) {
    if (!function.is_object()) return {};
    function = function.find(step);
  }
  return types_of(function.is_object() ? function.find(name) : JsonView());
}

std::optional<std::string> json_of(std::string_view text, const ValueTypes& types) {
  while (!text.empty() && is_json_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_json_space(text.back())) text.remove_suffix(1);
  if (text.empty()) return std::nullopt;
  if (text == "True" && types.boolean) return "true";
  if (text == "False" && types.boolean) return "false";
  if (text == "None" && types.null && !types.string) return "null";
  if (!allows(types, text.front())) return std::nullopt;
  // A list or a dict as Python prints it: where strings are allowed, it is one.
  if (!is_json(text)) return types.string ? std::nullopt : json_of_python(text);
  const bool is_number = text.front() == '-' || (text.front() >= '0' && text.front() <= '9');
  if (is_number && !types.number && !is_integer(text)) return std::nullopt;
  return std::string(text);
}

void append_string_byte(std::string& out, char byte) {
  if (static_cast<unsigned char>(byte) >= 0x80)
    out += byte;
  else
    append_json_text(out, std::string_view(&byte, 1));
}

}  // namespace flyball::api::calls
