// Values of facts in JSON, both ways.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "policy/facts.hpp"

namespace flyball::policy {

nlohmann::json json_of(const FactValue& value);
// nullopt: it is of another type. A whole number is a number, too.
std::optional<FactValue> fact_value(const nlohmann::json& json, FactType type);

struct NamedFact {
  FactId id;
  FactValue value;
};
// A fact that somebody made up. invalid_value: there is no such fact, it is of another type, or it can never
// have that value; the message says which.
Result<NamedFact> read_fact(const std::string& name, const nlohmann::json& value,
                            const TargetCatalogue& targets);

}  // namespace flyball::policy
