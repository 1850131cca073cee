#include "daemon/cli/facts_file.hpp"

#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

#include "config/yaml.hpp"
#include "policy/fact_text.hpp"

namespace flyball::cli {
namespace {

std::optional<policy::FactValue> value_of(const nlohmann::json& json, policy::FactType type) {
  switch (type) {
    case policy::FactType::boolean:
      if (json.is_boolean()) return json.get<bool>();
      break;
    case policy::FactType::integer:
      if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX) break;
      if (json.is_number_integer()) return json.get<std::int64_t>();
      break;
    case policy::FactType::number:
      if (json.is_number()) return json.get<double>();
      break;
    case policy::FactType::text:
      if (json.is_string()) return json.get<std::string>();
      break;
    case policy::FactType::text_list:
      if (json.is_array() &&
          std::ranges::all_of(json, [](const nlohmann::json& item) { return item.is_string(); }))
        return json.get<std::vector<std::string>>();
      break;
  }
  return std::nullopt;
}

}  // namespace

nlohmann::json parse_shallow_json(const std::string& text) {
  constexpr int kMaxDepth = 64;
  const auto shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    return depth < kMaxDepth;
  };
  return nlohmann::json::parse(text, shallow, false);
}

Result<void> read_facts_file(const std::string& path, policy::Facts& facts) {
  const auto text = config::read_text_file(path);
  if (!text) return std::unexpected(text.error());
  const nlohmann::json document = parse_shallow_json(*text);
  if (!document.is_object())
    return fail(ErrorCode::invalid_json, "expected a JSON object of fact names and values", {}, path);
  for (const auto& [name, value] : document.items()) {
    const auto id = policy::find_fact(name);
    if (!id) {
      Error unknown = policy::unknown_fact(name);
      unknown.where = path;
      return std::unexpected(std::move(unknown));
    }
    const policy::FactInfo& info = policy::fact_catalogue()[*id];
    auto typed = value_of(value, info.type);
    if (!typed)
      return fail(ErrorCode::invalid_value,
                  name + " is of type " + std::string(to_string(info.type)) + ", got " +
                      value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                  {}, path);
    if (auto ok = policy::check_value(info, *typed); !ok)
      return fail(ErrorCode::invalid_value, std::move(ok.error().message), {}, path);
    facts.set(*id, std::move(*typed), "facts file");
  }
  return {};
}

}  // namespace flyball::cli
