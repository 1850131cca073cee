// A policy as a picture: DOT for Graphviz, and SVG drawn here, with how often each rule decided where that is
// known.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "policy/tree.hpp"

namespace flyball::policy {

using RuleCounts = std::map<std::string, std::uint64_t, std::less<>>;  // by rule id

// "hardware.gpu.count = 0 and (model.moe = true or not app.id = a)"; "always".
std::string to_text(const Condition& condition, const TargetCatalogue& targets);

std::string to_dot(const Tree& tree, const RuleCounts& counts);
std::string to_svg(const Tree& tree, const RuleCounts& counts);

// The counts in a daemon's /metrics. Lines that are not of that kind are passed over.
RuleCounts counts_in_metrics(std::string_view exposition);

}  // namespace flyball::policy
