// `--facts FILE`: a JSON object of fact names and values, for explain and advise.
#pragma once

#include <string>

#include "config/error.hpp"
#include "policy/facts.hpp"

namespace flyball::cli {

// Sets every fact of the file, source "facts file". invalid_json says at which byte; invalid_value names an unknown
// fact or a value of another type.
Result<void> read_facts_file(const std::string& path, policy::Facts& facts);

}  // namespace flyball::cli
