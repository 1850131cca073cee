// Values of facts in JSON, both ways.
#pragma once

#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "policy/facts.hpp"

namespace flyball::policy {

nlohmann::json json_of(const FactValue& value);
// nullopt: it is of another type. A whole number is a number, too.
std::optional<FactValue> fact_value(const nlohmann::json& json, FactType type);

}  // namespace flyball::policy
