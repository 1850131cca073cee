// What `flyball advise` answers: the system that the policy's sources would take for a case, what serves it
// here, and what to mind.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "policy/decide.hpp"
#include "policy/engines.hpp"

namespace flyball::policy {

// Sentences about the decision that no rule says: a mixture of experts whose experts all lie in memory.
std::vector<std::string> warnings(const Decision& decision, const Facts& facts);

// flyball.advice/v1: engine (catalogue id, or null), target, profile, rule, because, source, path (ids of the
// rules that were true, in order), `named_by` (the rule that names the engine), stands_for (whether the
// catalogue says that this target stands for that engine), not_available and warnings.
nlohmann::json advice(const Decision& decision, const Facts& facts);
// The same for a terminal.
std::string advice_text(const Decision& decision, const Facts& facts);

}  // namespace flyball::policy
