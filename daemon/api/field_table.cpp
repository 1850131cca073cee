#include "daemon/api/field_table.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include <nlohmann/json.hpp>

#include "daemon/api/parameters.hpp"

namespace flyball::api {

std::string_view to_string(FieldOf of) noexcept {
  constexpr std::array<std::string_view, 28> kNames{"body",
                                                    "stream_options",
                                                    "response_format",
                                                    "response_format.json_schema",
                                                    "structured_outputs",
                                                    "options",
                                                    "messages[]",
                                                    "messages[].content[]",
                                                    "messages[].tool_calls[]",
                                                    "messages[].tool_calls[].function",
                                                    "tools[]",
                                                    "tools[].function",
                                                    "tool_choice",
                                                    "tool_choice.function",
                                                    "tool_choice.allowed_tools",
                                                    "tool_choice.tools[]",
                                                    "tools[] namespace",
                                                    "thinking",
                                                    "output_config",
                                                    "output_format",
                                                    "input[] message",
                                                    "input[] function_call",
                                                    "input[] function_call_output",
                                                    "input[] reasoning",
                                                    "input[] parts",
                                                    "text",
                                                    "text.format",
                                                    "reasoning"};
  return kNames.at(static_cast<std::size_t>(of));
}

std::string_view to_string(FieldUse use) noexcept {
  constexpr std::array<std::string_view, 3> kNames{"served", "accepted", "refused"};
  return kNames.at(static_cast<std::size_t>(use));
}

std::string note_of(const FieldGroup& group) {
  if (!group.feature || !group.note.empty()) return std::string(group.note);
  const std::string why = config::sentence(config::capability(*group.feature));
  return "is not served. " + why.substr(0, why.size() - 1);
}

bool asks_for_nothing(const FieldGroup& field, JsonView value) {
  constexpr std::uint32_t kLongest = 16;  // bytes of JSON; the tables' values are shorter
  if (value.is_null()) return true;
  if (value.is_string() ? value.text().size() > kLongest
                        : (value.is_array() || value.is_object()) && value.json_bytes() > kLongest)
    return false;
  const auto asked = to_nlohmann(value);
  return std::ranges::any_of(nlohmann::json::parse(field.asks_for_nothing),
                             [&](const nlohmann::json& one) { return one == asked; });
}

FieldTable::FieldTable(std::span<const FieldGroup> groups, std::span<const Parameter> parameters,
                       std::span<const Path> paths)
    : groups_(groups), parameters_(parameters), paths_(paths) {
  for (const Parameter& p : parameters)
    of_parameters_.push_back({p.of, p.endpoints, FieldUse::served, p.name});
  for (const FieldGroup& one : of_parameters_) entries_.push_back({one.of, one.names, &one});
  for (const FieldGroup& group : groups)
    for (std::string_view rest = group.names; !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      entries_.push_back({group.of, rest.substr(0, end), &group});
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  std::ranges::stable_sort(entries_, {}, [](const Entry& entry) { return std::tie(entry.of, entry.name); });
}

const FieldGroup* FieldTable::find(FieldOf of, Endpoints endpoints, std::string_view name) const noexcept {
  const auto same = std::ranges::equal_range(
      entries_, std::tie(of, name), {}, [](const Entry& entry) { return std::tie(entry.of, entry.name); });
  for (const Entry& entry : same)
    if ((entry.group->endpoints & endpoints) != 0) return entry.group;
  return nullptr;
}

std::vector<std::string_view> FieldTable::names(FieldOf of, Endpoints endpoints) const {
  std::vector<std::string_view> out;
  for (const FieldUse use : {FieldUse::served, FieldUse::accepted})
    for (const Entry& entry : entries_)
      if (entry.of == of && entry.group->use == use && (entry.group->endpoints & endpoints) != 0)
        out.push_back(entry.name);
  return out;
}

}  // namespace flyball::api
