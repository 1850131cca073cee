// Facts as people write them: "24GiB", "500ms", "true", "chat".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/facts.hpp"

namespace flyball::policy {

// "a|b" as a and b; no names from "".
std::vector<std::string_view> split_at_bars(std::string_view names);
// The values a text fact may have; empty: any.
std::vector<std::string_view> allowed_values(const FactInfo& fact);
// What fact_value() takes, in words: "a whole number or a size such as 16GiB".
std::string wanted(const FactInfo& fact);
// A whole number; of facts in bytes also a size (16GiB), of facts in ms also a duration (500ms).
std::optional<std::int64_t> fact_integer(const FactInfo& fact, std::string_view text);
// A value of any type, members of a text list with a comma between. invalid_value says what was expected.
Result<FactValue> fact_value(const FactInfo& fact, std::string_view text);
// That a fact can have the value: invalid_value for what is not among a text's few values, and for what is
// negative. Precondition: the value has the fact's type.
Result<void> check_value(const FactInfo& fact, const FactValue& value);
// "name=value" set with this source.
Result<void> set_fact(std::string_view assignment, const std::string& source, Facts& facts);
// A name that is not in the catalogue, with the nearest that is.
Error unknown_fact(std::string_view name, const TargetCatalogue& targets);

}  // namespace flyball::policy
