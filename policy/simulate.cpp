#include "policy/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include <nlohmann/json.hpp>

#include "config/units.hpp"

namespace flyball::policy {
namespace {

using Json = nlohmann::json;

// The backend of a target as it is written: the whole text where the policy has an engine of its own of that
// name, else the part before the profile.
std::string backend_of(std::string_view target, const TargetCatalogue& targets) {
  if (targets.find(target) != nullptr) return std::string(target);
  return std::string(target.substr(0, target.find(':')));
}

// The outcome; without a target, whether the policy (denied) or the machine (unavailable) is the cause.
std::string_view outcome_text(const Decision& decision) {
  if (const Outcome outcome = outcome_of(decision); outcome != Outcome::no_target) return to_string(outcome);
  const bool denied = std::ranges::all_of(decision.targets, [&](const TargetTrace& trace) {
    return trace.rule != decision.rule || trace.verdict == Verdict::denied;
  });
  return to_string(denied ? Verdict::denied : Verdict::unavailable);
}

void count_switch(std::string& last, std::string now, std::uint64_t& switches) {
  if (now.empty()) return;
  switches += !last.empty() && last != now;
  last = std::move(now);
}

// "41 ms (of 30)", "41 ms (of 300, all apps)", "unknown".
std::string shown_ttft(const Json& ttft) {
  if (ttft.is_null()) return "unknown";
  return config::milliseconds_text(std::llround(ttft["p50"].get<double>() * 1000)) + " (of " +
         ttft["requests"].dump() + (ttft["of"] == "all" ? ", all apps)" : ")");
}

std::string percent_text(double percent) {
  std::string out = std::to_string(std::llround(percent * 10));
  if (out.size() < 2) out.insert(0, "0");
  return out.insert(out.size() - 1, ".") + "%";
}

std::string cell(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text + "  ";
}

// Columns as wide as their widest cell, the first to the right, none behind the last.
std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::string out;
  for (const auto& row : rows) {
    out += "  " + std::string(widths[0] - row[0].size(), ' ') + cell(row[0], 0);
    for (std::size_t i = 1; i + 1 < row.size(); ++i) out += cell(row[i], widths[i]);
    out += row.back() + "\n";
  }
  return out;
}

std::string side_text(const Json& side) {
  const std::string rule = ", rule " + side["rule"].get<std::string>();
  if (side["target"].is_null())
    return (side.contains("outcome") ? side["outcome"].get<std::string>() : std::string("no target")) + rule;
  return side["target"].get<std::string>() + rule;
}

}  // namespace

void Simulation::add(const PastRequest& past) {
  decide(tree_, past.facts, decision_);
  const std::string target = decision_.target ? to_string(*decision_.target) : "";
  const std::string model(past.model);
  ++totals_.requests;
  if (target != past.target) {
    ++totals_.moved;
    totals_.lost += target.empty();
    ++moves_[{app_class_of(past), model, std::string(past.target), std::string(past.rule), target,
              decision_.rule->id, std::string(outcome_text(decision_))}];
  } else if (decision_.rule->id != past.rule) {
    ++other_rule_[{std::string(past.rule), decision_.rule->id}];
  }
  add_ttft(past);
  Switches& switches = switches_[model];
  count_switch(switches.before, backend_of(past.target, *tree_.targets), switches.recorded);
  count_switch(switches.after, backend_of(target, *tree_.targets), switches.simulated);
}

void Simulation::add_ttft(const PastRequest& past) {
  if (past.served_by.empty() || past.ttft_ms < 0) return;
  ttft_ms_[{std::string(past.model), std::string(past.served_by)}][app_class_of(past)].push_back(
      past.ttft_ms);
}

Simulation::AppClass Simulation::app_class_of(const PastRequest& past) {
  const Fact* kind = past.facts.get("workload.class");
  return {std::string(past.app), kind == nullptr ? "" : std::get<std::string>(kind->value)};
}

Json Simulation::ttft(const AppClass& app_class, const std::string& model, const std::string& target) const {
  const auto served = ttft_ms_.find({model, backend_of(target, *tree_.targets)});
  if (served == ttft_ms_.end()) return nullptr;
  const auto own = served->second.find(app_class);
  const bool has_own = own != served->second.end();
  std::vector<double> ms;
  if (has_own)
    ms = own->second;
  else
    for (const auto& [other, times] : served->second) ms.insert(ms.end(), times.begin(), times.end());
  const auto middle = ms.begin() + static_cast<std::ptrdiff_t>(ms.size() / 2);
  std::ranges::nth_element(ms, middle);
  return {{"p50", *middle}, {"requests", ms.size()}, {"of", has_own ? "app" : "all"}};
}

Json Simulation::report() const {
  Json out = {{"schema", "flyball.simulation/v1"},
              {"policy", tree_.file},
              {"requests", totals_.requests},
              {"moved", totals_.moved},
              {"moved_percent", totals_.moved_percent()},
              {"lost", totals_.lost},
              {"moves", Json::array()},
              {"rules", Json::array()},
              {"switches", Json::array()}};
  const auto name = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  std::vector<Json> moves;
  for (const auto& [move, n] : moves_) {
    const auto& [app_class, model, target, rule, new_target, new_rule, outcome] = move;
    moves.push_back(
        {{"app", app_class.app},
         {"class", name(app_class.kind)},
         {"model", model},
         {"requests", n},
         {"from", {{"target", name(target)}, {"rule", rule}, {"ttft_ms", ttft(app_class, model, target)}}},
         {"to",
          {{"target", name(new_target)},
           {"rule", new_rule},
           {"outcome", outcome},
           {"ttft_ms", ttft(app_class, model, new_target)}}}});
  }
  // Most first; by their names where as many move.
  std::ranges::stable_sort(moves, std::greater{},
                           [](const Json& one) { return one["requests"].get<std::uint64_t>(); });
  out["moves"] = std::move(moves);
  for (const auto& [rules, n] : other_rule_)
    out["rules"].push_back({{"from", rules.first}, {"to", rules.second}, {"requests", n}});
  for (const auto& [model, switches] : switches_)
    if (switches.recorded + switches.simulated > 0)
      out["switches"].push_back(
          {{"model", model}, {"recorded", switches.recorded}, {"simulated", switches.simulated}});
  return out;
}

std::string simulation_text(const Json& report) {
  std::string out = report["requests"].dump() + " recorded requests decided again by " +
                    report["policy"].get<std::string>() + ": " + report["moved"].dump() + " (" +
                    percent_text(report["moved_percent"].get<double>()) + ") would go elsewhere, " +
                    report["lost"].dump() + " would lose their target\n";
  std::vector<std::vector<std::string>> rows = {
      {"requests", "app", "class", "model", "from", "to", "median TTFT"}};
  for (const Json& move : report["moves"])
    rows.push_back({move["requests"].dump(), move["app"].get<std::string>(),
                    move["class"].is_null() ? "unknown" : move["class"].get<std::string>(),
                    move["model"].get<std::string>(), side_text(move["from"]), side_text(move["to"]),
                    move["to"]["target"].is_null()
                        ? "-"
                        : shown_ttft(move["from"]["ttft_ms"]) + " -> " + shown_ttft(move["to"]["ttft_ms"])});
  if (rows.size() > 1) out += "\n" + table(rows);
  if (!report["rules"].empty()) out += "\nsame target by another rule\n";
  for (const Json& rule : report["rules"])
    out += "  " + rule["requests"].dump() + "  " + rule["from"].get<std::string>() + " -> " +
           rule["to"].get<std::string>() + "\n";
  if (!report["switches"].empty()) out += "\nswitches of engine\n";
  for (const Json& one : report["switches"])
    out += "  " + one["model"].get<std::string>() + ": " + one["recorded"].dump() + " recorded, " +
           one["simulated"].dump() + " simulated\n";
  return out;
}

}  // namespace flyball::policy
