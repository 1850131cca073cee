#include "daemon/api/call_constraint.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>

namespace flyball::api {
namespace {

// The format's schema, absent where the value is none.
JsonView schema_of(JsonView value) {
  const JsonView type = value.is_object() ? value.find("type") : JsonView();
  return type.is_string() && type.text() == "json_schema" ? value.find("json_schema") : JsonView();
}

// The schema that the pointer leads into, and what is left of the pointer there. Absent: it leads into none.
JsonView schema_at(JsonView value, std::string_view& pointer) {
  while (pointer.starts_with('/')) {
    const std::size_t end = std::min(pointer.find('/', 1), pointer.size());
    const std::string_view step = pointer.substr(1, end - 1);
    pointer.remove_prefix(end);
    const JsonView schema = schema_of(value);
    if (schema && step == "json_schema") return schema;
    if (value.is_object()) {
      value = value.find(step);
    } else if (value.is_array()) {
      std::size_t index = 0;
      const auto [last, error] = std::from_chars(step.data(), step.data() + step.size(), index);
      if (error != std::errc() || index >= value.size()) return {};
      for (const auto& [key, item] : value.members())
        if (index-- == 0) {
          value = item;
          break;
        }
    }
    if (!value) return {};
  }
  return {};
}

// Counts the schemas up to that one. False: it is not there.
bool count_schemas(JsonView value, JsonView one, std::size_t& count) {
  if (const JsonView schema = schema_of(value)) {
    if (schema.bytes().data() == one.bytes().data()) return true;
    ++count;
    return false;
  }
  if (!value.is_array() && !value.is_object()) return false;
  for (const auto& [key, member] : value.members())
    if (count_schemas(member, one, count)) return true;
  return false;
}

}  // namespace

SchemaPlace schema_place(JsonView tag, const std::vector<SchemaPlace>& schemas, std::string_view pointer) {
  const JsonView schema = schema_at(tag, pointer);
  std::size_t before = 0;
  if (!schema || !count_schemas(tag, schema, before) || before >= schemas.size()) return {};
  SchemaPlace out = schemas[before];
  // Definitions stand beside the properties that refer to them.
  if (pointer.starts_with("/$defs/") || pointer.starts_with("/definitions/")) out.pointer.clear();
  out.pointer += pointer;
  return out;
}

}  // namespace flyball::api
