// `--facts FILE`: a JSON object of fact names and values, for explain and advise.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "config/error.hpp"
#include "policy/facts.hpp"

namespace flyball::cli {

// Writing JSON recurses, so what nests deeper than any receipt or fact is dropped while it is read.
nlohmann::json parse_shallow_json(const std::string& text);
// Sets every fact of the file, source "facts file". invalid_value names an unknown fact or a value of another
// type.
Result<void> read_facts_file(const std::string& path, policy::Facts& facts);

}  // namespace flyball::cli
