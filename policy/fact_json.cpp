#include "policy/fact_json.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "policy/fact_text.hpp"

namespace flyball::policy {

nlohmann::json json_of(const FactValue& value) {
  return std::visit([](const auto& v) { return nlohmann::json(v); }, value);
}

std::optional<FactValue> fact_value(const nlohmann::json& json, FactType type) {
  switch (type) {
    case FactType::boolean:
      if (json.is_boolean()) return json.get<bool>();
      break;
    case FactType::integer:
      if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX) break;
      if (json.is_number_integer()) return json.get<std::int64_t>();
      break;
    case FactType::number:
      if (json.is_number()) return json.get<double>();
      break;
    case FactType::text:
      if (json.is_string()) return json.get<std::string>();
      break;
    case FactType::text_list:
      if (json.is_array() &&
          std::ranges::all_of(json, [](const nlohmann::json& item) { return item.is_string(); }))
        return json.get<std::vector<std::string>>();
      break;
  }
  return std::nullopt;
}

Result<NamedFact> read_fact(const std::string& name, const nlohmann::json& value,
                            const TargetCatalogue& targets) {
  constexpr std::size_t kShownBytes = 80;  // of a value: it may be a document
  const auto id = targets.find_fact(name);
  if (!id) return std::unexpected(unknown_fact(name, targets));
  const FactInfo& info = targets.facts()[*id];
  auto typed = fact_value(value, info.type);
  if (!typed) {
    const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    return fail(ErrorCode::invalid_value,
                name + " is of type " + std::string(to_string(info.type)) + ", got " +
                    (text.size() > kShownBytes ? text.substr(0, kShownBytes) + "..." : text));
  }
  if (auto ok = check_value(info, *typed); !ok) return pass(ok);
  return NamedFact{*id, std::move(*typed)};
}

}  // namespace flyball::policy
