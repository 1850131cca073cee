#include "policy/why_not.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "policy/fact_json.hpp"
#include "policy/pick.hpp"

namespace flyball::policy {
namespace {

using Json = nlohmann::json;

class Answer {
 public:
  Answer(const Decision& decision, const Facts& facts, const Target& wanted)
      : decision_(decision),
        facts_(facts),
        wanted_(wanted),
        meant_(facts.targets()->meant_by(wanted.backend)) {}

  Json run() {
    look(decision_.tree->rules, nullptr);
    look(decision_.tree->fallback, nullptr);
    return {{"schema", "flyball.why_not/v1"},
            {"target", to_string(wanted_)},
            {"policy", decision_.tree->file},
            {"chosen", decision_.target ? Json(to_string(*decision_.target)) : Json()},
            {"rule", decision_.rule ? Json(decision_.rule->id) : Json()},
            {"unusable", unusable()},
            {"places", std::move(places_)}};
  }

 private:
  // Why no rule can choose the target on these facts, as a sentence; null if some instance may be available.
  Json unusable() const {
    std::string reasons;
    bool configured = false;
    for (const TargetInstance* const instance : meant_) {
      const Fact* const available = facts_.get(fact_of(*instance, TargetFact::available));
      const bool missing = instance->remote && !instance->configured;
      if (available ? std::get<bool>(available->value) : !missing) return nullptr;
      configured |= !missing;
      if (!available) continue;
      const Fact* const why = facts_.get(fact_of(*instance, TargetFact::reason));
      reasons += (reasons.empty() ? "" : "; ") +
                 (instance->id == wanted_.backend ? std::string() : instance->id + ": ") +
                 (why ? std::get<std::string>(why->value)
                      : "backend." + instance->id + ".available is false (" + available->source + ")");
    }
    if (meant_.empty()) return nullptr;
    if (!configured)
      return wanted_.backend +
             " is a remote server, and none is configured: this release cannot configure one, " +
             "so no rule can choose " + wanted_.backend;
    return wanted_.backend + " is not available, so no rule can choose it: " + reasons;
  }

  bool wants(const Target& target) const {
    return std::ranges::find(meant_, target.backend, &TargetInstance::id) != meant_.end() &&
           (wanted_.profile.empty() || wanted_.profile == target.profile);
  }

  const RuleTrace* trace_of(const Rule& rule) const {
    const auto it = std::ranges::find(decision_.rules, &rule, &RuleTrace::rule);
    return it == decision_.rules.end() ? nullptr : &*it;
  }

  // `untrue`: the nearest rule around that was asked and not true.
  void look(const std::vector<Rule>& rules, const RuleTrace* untrue) {
    for (const Rule& rule : rules) {
      const RuleTrace* trace = trace_of(rule);
      const RuleTrace* stop = trace && trace->outcome != Truth::yes ? trace : trace ? nullptr : untrue;
      look(rule, stop);
      look(rule.rules, stop);
    }
  }

  void look(const Rule& rule, const RuleTrace* untrue) {
    for (const Target& target : rule.use) {
      if (!wants(target)) continue;
      Json place = {{"rule", rule.id}, {"line", target.line}, {"target", to_string(target)}};
      fill(place, rule, target, untrue);
      places_.push_back(std::move(place));
    }
  }

  void fill(Json& place, const Rule& rule, const Target& target, const RuleTrace* untrue) const {
    if (untrue) {
      place["status"] = "untrue";
      place["asked"] = untrue->rule->id;
      Json& comparisons = place["comparisons"] = Json::array();
      for (std::uint32_t i = 0; i < untrue->n_conditions; ++i)
        comparisons.push_back(comparison(decision_.conditions[untrue->first_condition + i]));
      return;
    }
    const bool asked =
        &rule == &decision_.tree->fallback ? decision_.rule == &rule : trace_of(rule) != nullptr;
    const auto trace = std::ranges::find_if(
        decision_.targets, [&](const TargetTrace& t) { return t.target == &target && t.rule == &rule; });
    if (!asked || trace == decision_.targets.end()) {
      place["status"] = "unasked";
      place["reason"] =
          "rule " + (decision_.rule ? decision_.rule->id : std::string("?")) + " decided before";
      return;
    }
    place["status"] =
        trace->verdict == Verdict::available ? "passed" : std::string(to_string(trace->verdict));
    const auto pick = std::ranges::find(decision_.picks, &rule, &PickTrace::rule);
    place["reason"] = trace->verdict == Verdict::available && pick != decision_.picks.end()
                          ? "picked " + pick_text(*pick, decision_, facts_)
                      : trace->verdict == Verdict::available
                          ? to_string(*decision_.target) + " stands before it and could be used"
                      : trace->verdict == Verdict::denied
                          ? trace->denied_by->id + ": " + reason(*trace, facts_)
                          : reason(*trace, facts_);
  }

  Json comparison(const ConditionTrace& trace) const {
    const Condition& c = decision_.condition(trace);
    const Fact* fact = facts_.get(c.fact);
    return {{"fact", facts_.targets()->facts()[c.fact].name},
            {"unit", facts_.targets()->facts()[c.fact].unit},
            {"op", to_string(c.op)},
            {"operand", json_of(c.operand)},
            {"outcome", to_string(trace.outcome)},
            {"value", fact ? json_of(fact->value) : Json()},
            {"source", fact ? Json(fact->source) : Json()}};
  }

  const Decision& decision_;
  const Facts& facts_;
  const Target& wanted_;
  const std::vector<const TargetInstance*> meant_;
  Json places_ = Json::array();
};

std::string plain(const Json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Json why_not(const Decision& decision, const Facts& facts, const Target& wanted) {
  return Answer(decision, facts, wanted).run();
}

std::string why_not_text(const Json& answer) {
  const std::string target = answer["target"];
  const bool chosen = std::ranges::any_of(
      answer["places"], [](const Json& p) { return p["status"] == to_string(Verdict::chosen); });
  std::string out;
  if (!answer["unusable"].is_null()) out = plain(answer["unusable"]) + "\n";
  out += target + (chosen ? " was chosen" : " was not chosen");
  if (!chosen)
    out += answer["chosen"].is_null()
               ? "; nothing was"
               : "; " + plain(answer["chosen"]) + " was, by rule " + plain(answer["rule"]);
  out += "\n";
  if (answer["places"].empty()) out += "  no rule of " + plain(answer["policy"]) + " names it\n";
  for (const Json& place : answer["places"]) {
    const std::string status = place["status"];
    out += "  " + plain(place["rule"]) + " (line " + plain(place["line"]) + "), " + plain(place["target"]) +
           ": ";
    if (status != "untrue") {
      out +=
          status + (place["reason"].get<std::string>().empty() ? "" : ": " + plain(place["reason"])) + "\n";
      continue;
    }
    out += place["asked"] == place["rule"] ? "the rule is not true\n"
                                           : "inside rule " + plain(place["asked"]) + ", which is not true\n";
    for (const Json& c : place["comparisons"]) {
      const std::string unit = c["unit"];
      out += "    " + plain(c["outcome"]) + ": " + plain(c["fact"]) + " " + plain(c["op"]) + " " +
             shown_exactly(c["operand"], unit) + "; it is " +
             (c["value"].is_null()
                  ? "unknown"
                  : shown_beside(c["value"], unit, {&c["operand"], 1}) + " (" + plain(c["source"]) + ")") +
             "\n";
    }
  }
  return out;
}

}  // namespace flyball::policy
