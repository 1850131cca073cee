#include "policy/fact_json.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "config/units.hpp"
#include "policy/fact_text.hpp"

namespace flyball::policy {
namespace {

std::string plain(const nlohmann::json& value) {
  if (value.is_null()) return {};
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// nullopt: no time in one of these units, or longer than microseconds can count.
std::optional<std::int64_t> microseconds(const nlohmann::json& value, std::string_view unit) {
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX))
    return std::nullopt;
  const auto number = value.get<std::int64_t>();
  if (unit == "us") return number;
  constexpr std::int64_t kMost = INT64_MAX / 1000;
  if (unit != "ms" || number > kMost || number < -kMost) return std::nullopt;
  return number * 1000;
}

}  // namespace

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

std::string shown(const nlohmann::json& value, std::string_view unit) {
  if (unit == "bytes" && value.is_number_integer() && value >= 0)
    return config::size_text(value.get<std::uint64_t>());
  if (const auto time = microseconds(value, unit)) return config::time_text(*time);
  return plain(value) + (unit.empty() || value.is_null() ? "" : " " + std::string(unit));
}

std::string shown_exactly(const nlohmann::json& value, std::string_view unit) {
  if (unit == "bytes" && value.is_number_integer() && value >= 0)
    return config::exact_size_text(value.get<std::uint64_t>());
  if (const auto time = microseconds(value, unit)) return config::exact_time_text(*time);
  return shown(value, unit);
}

std::string shown_beside(const nlohmann::json& value, std::string_view unit,
                         std::span<const nlohmann::json> operands) {
  std::string out = shown(value, unit);
  const bool alike = std::ranges::any_of(operands, [&](const nlohmann::json& operand) {
    return operand != value && shown_exactly(operand, unit) == out;
  });
  return alike ? shown_exactly(value, unit) : out;
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
