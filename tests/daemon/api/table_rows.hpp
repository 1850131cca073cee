// Parameters and fields as the documents list them.
#pragma once

#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "daemon/api/field_table.hpp"
#include "daemon/api/json_text.hpp"
#include "daemon/api/parameters.hpp"

namespace flyball::api {

inline std::vector<std::string> names_of(const FieldGroup& group) {
  std::istringstream in{std::string(group.names)};
  return {std::istream_iterator<std::string>(in), {}};
}

// `where`: the text of the column behind the name.
inline std::string row_of(const Parameter& p, const std::string& where) {
  std::string range;
  if (type_name(p) != "boolean") {
    range = p.min_excluded ? "over " : "";
    append_json_number(range, p.min);
    range += " to ";
    append_json_number(range, p.max);
  }
  return "| `" + std::string(p.name) + "` | " + where + " | " + std::string(type_name(p)) + " | " + range +
         " | " + std::string(p.fallback) + " |\n";
}

inline std::string row_of(const FieldGroup& group, const std::string& where) {
  std::string row = "| ";
  for (const std::string& name : names_of(group)) row += (row.size() > 2 ? ", `" : "`") + name + "`";
  row += " | " + std::string(to_string(group.of)) + " | " + where + " | " + std::string(to_string(group.use));
  std::string nothing;
  for (const auto& value : nlohmann::json::parse(group.asks_for_nothing))
    nothing += (nothing.empty() ? " but for `" : ", `") + value.dump() + "`";
  return row + nothing + " | " + note_of(group) + " |\n";
}

}  // namespace flyball::api
