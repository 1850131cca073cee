// A decision as JSON that can be kept and sent, and that JSON as text for people.
#include <algorithm>
#include <array>
#include <map>

#include <nlohmann/json.hpp>

#include "config/engine_kinds.hpp"
#include "config/units.hpp"
#include "policy/advice.hpp"
#include "policy/decide.hpp"
#include "policy/fact_json.hpp"
#include "policy/fastest.hpp"
#include "policy/pick.hpp"

namespace flyball::policy {
namespace {

using Json = nlohmann::json;

Json conditions_json(const Decision& decision, std::uint32_t first, std::uint32_t n) {
  Json out = Json::array();
  for (std::uint32_t i = first; i < first + n; ++i) {
    const ConditionTrace& trace = decision.conditions[i];
    const Condition& condition = decision.condition(trace);
    out.push_back({{"fact", decision.tree->targets->facts()[condition.fact].name},
                   {"op", to_string(condition.op)},
                   {"operand", json_of(condition.operand)},
                   {"outcome", to_string(trace.outcome)},
                   {"line", condition.line}});
  }
  return out;
}

// Facts in the order in which the decision first asked for them, each followed by what it follows from.
Json facts_json(const Decision& decision, const Facts& facts) {
  const auto catalogue = facts.targets()->facts();
  std::vector<bool> seen(catalogue.size());
  Json out = Json::array();
  const auto add = [&](FactId id, const auto& self) -> void {
    if (seen[id]) return;
    seen[id] = true;
    const FactInfo& info = catalogue[id];
    Json row = {{"name", info.name}, {"unit", info.unit}};
    const Fact* fact = facts.get(id);
    if (fact) {
      row["value"] = json_of(fact->value);
      row["source"] = fact->source;
      row["age_ms"] = fact->age.count();
    } else {
      row["value"] = nullptr;  // unknown
    }
    out.push_back(std::move(row));
    if (fact)
      for (const FactId source : fact->from) self(source, self);
  };
  for (const ConditionTrace& trace : decision.conditions) add(decision.condition(trace).fact, add);
  return out;
}

// What is known of a target beside whether it can be used: its load and measurements, and of an engine of
// this machine the model's bytes beside the memory that they would lie in.
Json known_json(const Target& target, const Facts& facts) {
  Json out = Json::array();
  const auto add = [&](FactId id, std::string_view name) {
    const Fact* const fact = facts.get(id, target.profile);
    if (fact == nullptr) return;
    Json row = {{"name", name}, {"unit", facts.targets()->facts()[id].unit}, {"value", json_of(fact->value)}};
    if (is_predicted(*fact)) row["source"] = fact->source;
    out.push_back(std::move(row));
  };
  const TargetInstance& instance = *facts.targets()->find(target.backend);
  const std::size_t prefix = std::string_view("backend..").size() + instance.id.size();
  for (std::size_t i = 0; i < kTargetFacts; ++i) {
    const auto which = static_cast<TargetFact>(i);
    if (which == TargetFact::available || which == TargetFact::reason) continue;
    const FactId id = fact_of(instance, which);
    add(id, facts.targets()->facts()[id].name.substr(prefix));
  }
  if (instance.remote || !facts.get("model.bytes")) return out;
  const Fact* const discrete = facts.get("hardware.gpu.discrete_count");
  const config::EngineKind* const kind = config::find_engine_kind(instance.kind);
  const bool own_memory = kind != nullptr && kind->memory == config::EngineKind::Memory::device && discrete &&
                          std::get<std::int64_t>(discrete->value) > 0;
  for (const char* name :
       {"model.bytes", own_memory ? "hardware.gpu.memory_total" : "hardware.memory.available"})
    add(*find_fact(name), name);
  return out;
}

Json rule_json(const Rule& rule) {
  return {{"id", rule.id}, {"because", rule.because}, {"source", rule.source}, {"line", rule.line}};
}

Json picks_json(const Decision& decision, const Facts& facts) {
  Json out = Json::array();
  for (const PickTrace& trace : decision.picks) {
    const bool none = trace.picked.by == Picked::By::nothing;
    const TargetTrace& row = decision.targets[trace.first_target + trace.picked.at];
    out.push_back({{"rule", trace.rule->id},
                   {"pick", to_string(trace.rule->pick)},
                   {"target", none ? Json() : Json(to_string(*row.target))},
                   {"by", to_string(trace.picked.by)},
                   {"slo_missed", trace.picked.slo_missed},
                   {"margin_percent", kNearPercent},
                   {"text", pick_text(trace, decision, facts)}});
  }
  return out;
}

std::string field(const Json& object, const char* key) {
  const auto it = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || it == object.end() || it->is_null()) return {};
  return it->is_string() ? it->get<std::string>() : it->dump(-1, ' ', false, Json::error_handler_t::replace);
}

const Json& list(const Json& object, const char* key) {
  static const Json kEmpty = Json::array();
  if (!object.is_object()) return kEmpty;
  const auto it = object.find(key);
  return it != object.end() && it->is_array() ? *it : kEmpty;
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string target_name(const Json& target) {
  const std::string profile = field(target, "profile"), backend = field(target, "backend");
  // An engine of its own has its profile in its id.
  return backend + (profile.empty() || backend.ends_with(":" + profile) ? "" : ":" + profile);
}

const Json& value_of(const Json& row, const char* key) {
  static const Json kNothing;
  const auto it = row.is_object() ? row.find(key) : row.end();
  return row.is_object() && it != row.end() ? *it : kNothing;
}

// A predicted time of a target and its words: half of the requests, and nine in ten, take at most so long.
struct Expected {
  const char *p50, *p90;  // p90 may be "": it is not predicted
  const char* words;
};
constexpr std::array kExpected{Expected{"expected_total", "expected_total_p90", " in all"},
                               Expected{"expected_ttft", "expected_ttft_p90", " to the first token"},
                               Expected{"expected_tpot", "expected_tpot_p90", " for each further token"},
                               Expected{"expected_delay_to_others", "", " of delay to others"}};

// The row of a time; nullptr: the receipt has none that can be read.
const Json* time_row(const Json& target, std::string_view name) {
  for (const Json& known : list(target, "known"))
    if (field(known, "name") == name && field(known, "unit") == "us" &&
        value_of(known, "value").is_number_integer() && value_of(known, "value") <= INT64_MAX)
      return &known;
  return nullptr;
}

std::string time_of(const Json& row) {
  return config::milliseconds_text(value_of(row, "value").get<std::int64_t>());
}

// "predicted 1813 ms in all, 90 % within 2400 ms; 612 ms to the first token, 90 % within 700 ms: queue 0 ms +
// ...": all in milliseconds, so that targets compare. "": nothing is predicted.
std::string expected_text(const Json& target) {
  std::string out;
  bool predicted = false;
  for (const Expected& expected : kExpected) {
    const Json* const p50 = time_row(target, expected.p50);
    if (p50 == nullptr) continue;
    const std::string source = field(*p50, "source");
    predicted |= !source.empty();
    out += (out.empty() ? "" : "; ") + time_of(*p50) + expected.words;
    const Json* const p90 = time_row(target, expected.p90);
    if (p90 != nullptr) out += ", 90 % within " + time_of(*p90);
    if (const std::size_t basis = source.find(": "); basis != std::string::npos)
      out += (p90 != nullptr ? ": " : ", ") + source.substr(basis + 2);
  }
  return out.empty() ? "" : (predicted ? "predicted " : "expected ") + out;
}

std::string known_text(const Json& target) {
  std::string out;
  const auto stands_above = [&](const Json& known) {
    return std::ranges::any_of(kExpected, [&](const Expected& expected) {
      const Json* const p50 = time_row(target, expected.p50);
      return p50 != nullptr && (p50 == &known || time_row(target, expected.p90) == &known);
    });
  };
  for (const Json& known : list(target, "known"))
    if (const std::string source = field(known, "source"); !stands_above(known))
      out += (out.empty() ? "" : ", ") + field(known, "name") + " " +
             shown(value_of(known, "value"), field(known, "unit")) +
             (source.empty() ? "" : " (" + source + ")");
  return out;
}

std::string target_lines(const Json& target) {
  std::string out;
  for (const std::string& line : {expected_text(target), known_text(target)})
    if (!line.empty()) out += "              " + line + "\n";
  return out;
}

// The units of the receipt's facts, and the operands that each was compared with.
struct Compared {
  std::string unit;
  std::vector<Json> operands;
};
using ComparedFacts = std::map<std::string, Compared>;

ComparedFacts compared_facts(const Json& receipt) {
  ComparedFacts out;
  for (const Json& fact : list(receipt, "facts")) out[field(fact, "name")].unit = field(fact, "unit");
  for (const char* const part : {"rules", "constraints"})
    for (const Json& one : list(receipt, part))
      for (const Json& condition : list(one, "conditions"))
        out[field(condition, "fact")].operands.push_back(value_of(condition, "operand"));
  return out;
}

std::string conditions_text(const Json& rule, ComparedFacts& facts) {
  std::string out;
  for (const Json& c : list(rule, "conditions"))
    out += "      " + padded(field(c, "outcome"), 8) + field(c, "fact") + " " + field(c, "op") + " " +
           shown_exactly(value_of(c, "operand"), facts[field(c, "fact")].unit) + "\n";
  return out;
}

}  // namespace

std::string_view to_string(Truth truth) noexcept {
  constexpr std::array<std::string_view, 3> kNames{"no", "yes", "unknown"};
  return kNames[static_cast<std::size_t>(truth)];
}

std::string_view to_string(Verdict verdict) noexcept {
  constexpr std::array<std::string_view, 4> kNames{"chosen", "available", "unavailable", "denied"};
  return kNames[static_cast<std::size_t>(verdict)];
}

std::string_view to_string(Picked::By by) noexcept {
  constexpr std::array<std::string_view, 10> kNames{"nothing",     "first",     "unpredicted", "fastest",
                                                    "loaded",      "near",      "meets_slo",   "trial",
                                                    "least_delay", "near_delay"};
  return kNames[static_cast<std::size_t>(by)];
}

std::string_view to_string(Outcome outcome) noexcept {
  constexpr std::array<std::string_view, 3> kNames{"chosen", "queued", "no_target"};
  return kNames[static_cast<std::size_t>(outcome)];
}

Outcome outcome_of(const Decision& decision) noexcept {
  if (decision.target) return Outcome::chosen;
  return decision.queue ? Outcome::queued : Outcome::no_target;
}

Json receipt(const Decision& decision, const Facts& facts) {
  Json out = {{"schema", "flyball.receipt/v1"},
              {"policy", decision.tree->file},
              {"outcome", to_string(outcome_of(decision))},
              {"target", nullptr},
              {"rule", nullptr},
              {"engine", nullptr},
              {"facts", facts_json(decision, facts)}};
  if (decision.target)
    out["target"] = {{"backend", decision.target->backend}, {"profile", decision.target->profile}};
  if (const Profile* const profile = decision.target ? profile_of(*decision.tree, *decision.target) : nullptr;
      profile != nullptr && profile->own_engine)
    out["target"]["settings"] = to_text(*profile);
  if (decision.rule) out["rule"] = rule_json(*decision.rule);
  if (decision.advice)
    out["engine"] = {{"id", decision.advice->engine}, {"rule", rule_json(*decision.advice)}};
  if (!decision.picks.empty()) out["picks"] = picks_json(decision, facts);
  auto mind = warnings(decision, facts);
  for (std::string& feature : unserved_features(facts)) mind.push_back(std::move(feature));
  if (!mind.empty()) out["warnings"] = std::move(mind);
  Json& rules = out["rules"] = Json::array();
  for (const RuleTrace& trace : decision.rules)
    rules.push_back({{"id", trace.rule->id},
                     {"depth", trace.depth},
                     {"outcome", to_string(trace.outcome)},
                     {"conditions", conditions_json(decision, trace.first_condition, trace.n_conditions)}});
  Json& constraints = out["constraints"] = Json::array();
  for (const ConstraintTrace& trace : decision.constraints)
    constraints.push_back(
        {{"id", trace.constraint->id},
         {"because", trace.constraint->because},
         {"outcome", to_string(trace.outcome)},
         {"deny", trace.constraint->deny},
         {"conditions", conditions_json(decision, trace.first_condition, trace.n_conditions)}});
  Json& targets = out["targets"] = Json::array();
  for (const TargetTrace& trace : decision.targets) {
    Json row = {{"backend", trace.target->backend},
                {"profile", trace.target->profile},
                {"rule", trace.rule->id},
                {"verdict", to_string(trace.verdict)},
                {"reason", reason(trace, facts)}};
    if (trace.denied_by) row["denied_by"] = trace.denied_by->id;
    if (Json known = known_json(*trace.target, facts); !known.empty()) row["known"] = std::move(known);
    targets.push_back(std::move(row));
  }
  return out;
}

std::string explain_text(const Json& receipt) {
  const Json rule = receipt.is_object() ? receipt.value("rule", Json()) : Json();
  const Json target = receipt.is_object() ? receipt.value("target", Json()) : Json();
  const bool queued = field(receipt, "outcome") == to_string(Outcome::queued);
  std::string out = target.is_object() ? target_name(target)
                    : queued           ? "no target is free; the request waits"
                                       : "no target";
  const Json engine = receipt.is_object() ? receipt.value("engine", Json()) : Json();
  if (rule.is_object()) {
    out += ", by rule " + field(rule, "id") + " (" + field(receipt, "policy") + ":" + field(rule, "line") +
           ")\n";
    out += "  because  " + field(rule, "because") + "\n";
    if (const std::string source = field(rule, "source"); !source.empty())
      out += "  source   " + source + "\n";
    if (const std::string id = field(engine, "id"); !id.empty())
      out += "  engine   " + id + ", by rule " + field(engine.value("rule", Json()), "id") + "\n";
  } else {
    out += "\n";
  }
  if (const std::string settings = field(target, "settings"); !settings.empty())
    out += "  profile  " + field(target, "profile") + " sets " + settings + "\n";
  for (const Json& pick : list(receipt, "picks"))
    out += (field(pick, "rule") == field(rule, "id") ? "  picked   "
                                                     : "  passed   rule " + field(pick, "rule") + ", ") +
           field(pick, "text") + "\n";

  for (const Json& warning : list(receipt, "warnings"))
    if (warning.is_string()) out += "  warning  " + warning.get<std::string>() + "\n";

  ComparedFacts facts = compared_facts(receipt);
  if (!list(receipt, "facts").empty()) out += "\nfacts the decision asked for\n";
  for (const Json& fact : list(receipt, "facts")) {
    const bool known = fact.is_object() && fact.contains("value") && !fact["value"].is_null();
    std::string line = "  " + padded(field(fact, "name"), 32) + " ";
    if (known) {
      const Compared& compared = facts[field(fact, "name")];
      line += padded(shown_beside(fact["value"], compared.unit, compared.operands), 20) + " " +
              field(fact, "source");
      if (const Json& age = value_of(fact, "age_ms"); age.is_number_integer() && age > 0)
        line += ", " + shown(age, "ms") + " ago";
    } else {
      line += "unknown";
    }
    out += line + "\n";
  }

  if (!list(receipt, "rules").empty()) out += "\nrules asked, in order\n";
  for (const Json& r : list(receipt, "rules")) {
    const bool nested = field(r, "depth") != "0";
    out += "  " + padded(field(r, "outcome"), 8) + (nested ? "  " : "") + field(r, "id") + "\n" +
           conditions_text(r, facts);
  }
  if (!list(receipt, "constraints").empty()) out += "\nconstraints (deny unless the answer is no)\n";
  for (const Json& c : list(receipt, "constraints"))
    out += "  " + padded(field(c, "outcome"), 8) + field(c, "id") + ": " + field(c, "because") + "\n" +
           conditions_text(c, facts);

  if (!list(receipt, "targets").empty()) out += "\ntargets considered\n";
  for (const Json& t : list(receipt, "targets")) {
    const std::string reason = field(t, "reason");
    out += "  " + padded(field(t, "verdict"), 12) + padded(target_name(t), 22) + "rule " + field(t, "rule");
    if (const std::string by = field(t, "denied_by"); !by.empty()) out += ", constraint " + by;
    if (!reason.empty()) out += ": " + reason;
    out += "\n" + target_lines(t);
  }
  return out;
}

}  // namespace flyball::policy
