#include "policy/fact_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

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

Result<std::string> checked_text(const FactInfo& fact, std::string_view text) {
  const auto allowed = allowed_values(fact);
  if (allowed.empty() || std::ranges::find(allowed, text) != allowed.end()) return std::string(text);
  std::string expected(fact.values);
  std::ranges::replace(expected, '|', ' ');
  return fail(ErrorCode::invalid_value, std::string(fact.name) + " is never \"" + std::string(text) +
                                            "\"; it is one of: " + expected +
                                            config::did_you_mean(text, allowed));
}

}  // namespace

std::vector<std::string_view> allowed_values(const FactInfo& fact) {
  std::vector<std::string_view> values;
  for (std::string_view rest = fact.values; !rest.empty();) {
    const std::size_t bar = rest.find('|');
    values.push_back(rest.substr(0, bar));
    rest = bar == std::string_view::npos ? std::string_view() : rest.substr(bar + 1);
  }
  return values;
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
  const auto expected = [&](const char* what) {
    return fail(ErrorCode::invalid_value, std::string(fact.name) + ": expected " + what + ", got \"" +
                                              std::string(text.substr(0, 60)) + "\"");
  };
  switch (fact.type) {
    case FactType::boolean:
      if (text == "true" || text == "false") return text == "true";
      return expected("true or false");
    case FactType::integer:
      if (const auto value = fact_integer(fact, text)) return *value;
      return expected("a whole number");
    case FactType::number:
      if (const auto value = plain_number(text)) return *value;
      return expected("a number");
    case FactType::text: {
      auto checked = checked_text(fact, text);
      if (!checked) return std::unexpected(std::move(checked.error()));
      return std::move(*checked);
    }
    case FactType::text_list: {
      std::vector<std::string> members;
      for (std::size_t at = 0; at <= text.size();) {
        const std::size_t comma = std::min(text.find(',', at), text.size());
        auto checked = checked_text(fact, text.substr(at, comma - at));
        if (!checked) return std::unexpected(std::move(checked.error()));
        members.push_back(std::move(*checked));
        at = comma + 1;
      }
      return members;
    }
  }
  return expected("a value");
}

Error unknown_fact(std::string_view name) {
  std::vector<std::string_view> names;
  for (const FactInfo& info : fact_catalogue()) names.push_back(info.name);
  return {ErrorCode::invalid_value,
          "unknown fact \"" + std::string(name.substr(0, 100)) + "\"" + config::did_you_mean(name, names),
          {},
          {}};
}

Result<void> set_fact(std::string_view assignment, const std::string& source, Facts& facts) {
  const std::size_t equals = assignment.find('=');
  const std::string_view name = assignment.substr(0, equals);
  const auto id = find_fact(name);
  if (!id) return std::unexpected(unknown_fact(name));
  if (equals == std::string_view::npos)
    return fail(ErrorCode::invalid_value, std::string(name) + ": expected NAME=VALUE");
  auto value = fact_value(fact_catalogue()[*id], assignment.substr(equals + 1));
  if (!value) return std::unexpected(std::move(value.error()));
  facts.set(*id, std::move(*value), source);
  return {};
}

}  // namespace flyball::policy
