// JSON text to packed JSON and back, for tests that say what they mean in text.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "config/json_reader.hpp"

namespace flyball::test {

// "" is no value. Text that is no JSON aborts.
inline PackedJson packed(std::string_view text) {
  if (text.empty()) return {};
  auto value = read_packed(text, {.depth = 10'000, .nodes = SIZE_MAX}, text);
  if (!value) std::abort();
  return std::move(*value);
}

inline nlohmann::ordered_json ordered(JsonView value) {
  using nlohmann::ordered_json;
  if (!value.is_array() && !value.is_object()) return ordered_json(to_nlohmann(value));
  ordered_json out = value.is_array() ? ordered_json::array() : ordered_json::object();
  for (const auto& [key, member] : value.members()) {
    if (value.is_array())
      out.push_back(ordered(member));
    else
      out[std::string(key)] = ordered(member);
  }
  return out;
}

// Compact, members in their own order; "" of no value.
inline std::string text_of(const PackedJson& value) {
  return value.empty() ? std::string() : ordered(value.view()).dump();
}

}  // namespace flyball::test
