// Values of facts in JSON, both ways.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "policy/facts.hpp"

namespace flyball::policy {

nlohmann::json json_of(const FactValue& value);
// nullopt: it is of another type. A whole number is a number, too.
std::optional<FactValue> fact_value(const nlohmann::json& json, FactType type);

// A fact's value as text for people, in the unit of its FactInfo: "4.4 GiB", "1.8 s", "512 tokens", "true".
// Any JSON is accepted.
std::string shown(const nlohmann::json& value, std::string_view unit);
// shown() without rounding: "25769803775 bytes".
std::string shown_exactly(const nlohmann::json& value, std::string_view unit);
// shown(), or shown_exactly() if it would look like one of these operands and is another number.
std::string shown_beside(const nlohmann::json& value, std::string_view unit,
                         std::span<const nlohmann::json> operands);

struct NamedFact {
  FactId id;
  FactValue value;
};
// A fact that somebody made up. invalid_value: there is no such fact, it is of another type, or it can never
// have that value; the message says which.
Result<NamedFact> read_fact(const std::string& name, const nlohmann::json& value,
                            const TargetCatalogue& targets);

}  // namespace flyball::policy
