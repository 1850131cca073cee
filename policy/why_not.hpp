// Why a target was not chosen: every rule that names it, and what stood in the way.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "policy/decide.hpp"

namespace flyball::policy {

// flyball.why_not/v1: `target`, `chosen` (the target that was), `unusable` (the sentence that says why no
// rule can choose the target on these facts, or null), and for each rule that names the target `status`:
// chosen, untrue (with the comparisons that were not true), unavailable or denied (with the reason), passed
// (a target before it was taken) or unasked (another rule decided before). `wanted` is an engine, or an
// engine with a profile.
nlohmann::json why_not(const Decision& decision, const Facts& facts, const Target& wanted);
// The same for a terminal; `unusable` is the first line.
std::string why_not_text(const nlohmann::json& answer);

}  // namespace flyball::policy
