#include "policy/fact_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "config/name_list.hpp"
#include "config/table.hpp"
#include "config/units.hpp"

namespace flyball::policy {
namespace {

std::optional<double> plain_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

Result<void> check_text(const FactInfo& fact, std::string_view text) {
  const auto allowed = allowed_values(fact);
  if (allowed.empty() || std::ranges::find(allowed, text) != allowed.end()) return {};
  std::string expected(fact.values);
  std::ranges::replace(expected, '|', ' ');
  return fail(ErrorCode::invalid_value, std::string(fact.name) + " is never " + config::quoted(text) +
                                            "; it is one of: " + expected +
                                            config::did_you_mean(text, allowed));
}

}  // namespace

std::vector<std::string_view> split_at_bars(std::string_view names) {
  std::vector<std::string_view> out;
  while (!names.empty()) {
    const std::size_t bar = names.find('|');
    out.push_back(names.substr(0, bar));
    names = bar == std::string_view::npos ? std::string_view() : names.substr(bar + 1);
  }
  return out;
}

std::vector<std::string_view> allowed_values(const FactInfo& fact) {
  return split_at_bars(fact.values);
}

std::string wanted(const FactInfo& fact) {
  std::string values(fact.values);
  std::ranges::replace(values, '|', ' ');
  switch (fact.type) {
    case FactType::boolean:
      return "true or false";
    case FactType::integer:
      return fact.unit == "bytes" ? "a whole number or a size such as 16GiB"
             : fact.unit == "ms"  ? "milliseconds or a duration such as 500ms"
                                  : "a whole number";
    case FactType::number:
      return "a number";
    case FactType::text:
      return values.empty() ? "a text" : "one of: " + values;
    case FactType::text_list:
      return values.empty() ? "texts with commas between" : "some of these, with commas between: " + values;
  }
  return {};
}

std::optional<std::int64_t> fact_integer(const FactInfo& fact, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size()) return value;
  if (fact.unit == "bytes")
    if (const auto size = config::parse_size(text); size && size->percent == 0 && size->bytes <= INT64_MAX)
      return static_cast<std::int64_t>(size->bytes);
  if (fact.unit == "ms")
    if (const auto time = config::parse_duration(text)) return time->count();
  return std::nullopt;
}

Result<FactValue> fact_value(const FactInfo& fact, std::string_view text) {
  const auto mismatch = [&] {
    return fail(ErrorCode::invalid_value,
                std::string(fact.name) + ": expected " + wanted(fact) + ", got " + config::quoted(text));
  };
  FactValue value;
  switch (fact.type) {
    case FactType::boolean:
      if (text != "true" && text != "false") return mismatch();
      value = text == "true";
      break;
    case FactType::integer:
      if (const auto number = fact_integer(fact, text))
        value = *number;
      else
        return mismatch();
      break;
    case FactType::number:
      if (const auto number = plain_number(text))
        value = *number;
      else
        return mismatch();
      break;
    case FactType::text:
      value = std::string(text);
      break;
    case FactType::text_list: {
      std::vector<std::string> members;
      for (std::size_t at = 0; at <= text.size();) {
        const std::size_t comma = std::min(text.find(',', at), text.size());
        members.emplace_back(text.substr(at, comma - at));
        at = comma + 1;
      }
      value = std::move(members);
      break;
    }
  }
  if (auto ok = check_value(fact, value); !ok) return pass(ok);
  return value;
}

Result<void> check_value(const FactInfo& fact, const FactValue& value) {
  const auto* integer = std::get_if<std::int64_t>(&value);
  const auto* number = std::get_if<double>(&value);
  if ((integer && *integer < 0) || (number && !(*number >= 0 && std::isfinite(*number))))
    return fail(ErrorCode::invalid_value, std::string(fact.name) + " is never negative, got " +
                                              (integer ? std::to_string(*integer) : std::to_string(*number)));
  if (const auto* text = std::get_if<std::string>(&value)) return check_text(fact, *text);
  if (const auto* members = std::get_if<std::vector<std::string>>(&value))
    for (const std::string& member : *members)
      if (auto ok = check_text(fact, member); !ok) return pass(ok);
  return {};
}

Error unknown_fact(std::string_view name, const TargetCatalogue& targets) {
  std::vector<std::string_view> names;
  for (const FactInfo& info : targets.facts()) names.push_back(info.name);
  return {ErrorCode::invalid_value,
          "unknown fact " + config::quoted(name) + config::did_you_mean(name, names),
          {},
          {}};
}

Result<void> set_fact(std::string_view assignment, const std::string& source, Facts& facts) {
  const std::size_t equals = assignment.find('=');
  const std::string_view name = assignment.substr(0, equals);
  const auto id = facts.targets()->find_fact(name);
  if (!id) return std::unexpected(unknown_fact(name, *facts.targets()));
  const FactInfo& info = facts.targets()->facts()[*id];
  if (equals == std::string_view::npos)
    return fail(ErrorCode::invalid_value, std::string(name) + " has no value: expected " + std::string(name) +
                                              "=VALUE, and VALUE " + wanted(info));
  auto value = fact_value(info, assignment.substr(equals + 1));
  if (!value) return pass(value);
  facts.set(*id, std::move(*value), source);
  return {};
}

}  // namespace flyball::policy
