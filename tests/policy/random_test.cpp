// 10,000 random trees and sets of facts: parser and decide() against an evaluator written apart from both,
// over its own description of the tree. The two share nothing but the YAML text between them. Another ten
// thousand: FLYBALL_SEED=N.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "policy/decide.hpp"

namespace flyball::policy {
namespace {

// ---- the naive side ---------------------------------------------------------------------------------------
// A fact is a string (a list: with commas) or absent, a condition a small expression.

struct Expr {
  std::string op;  // all any not eq ne gt gte lt lte in exists
  std::string fact;
  std::vector<std::string> operands;
  std::vector<Expr> parts;
};
struct NaiveRule {
  std::string id;
  std::optional<Expr> when;
  std::vector<std::string> use;
  std::string on_unavailable;
  std::vector<NaiveRule> rules;
  std::string engine = {};  // with no `use` and no `rules`: advice
  std::string pick = {}, on_slo_miss = {};
};
struct NaiveTree {
  std::vector<std::pair<Expr, std::vector<std::string>>> constraints;
  std::vector<NaiveRule> rules;
  NaiveRule fallback;
};
using NaiveFacts = std::map<std::string, std::string>;

constexpr const char* kIntegers[] = {"model.bytes", "workload.concurrency", "hardware.gpu.count"};
constexpr const char* kNumbers[] = {"hardware.cpu.bandwidth", "backend.cpu.kv_usage"};
constexpr const char* kList = "workload.modalities";
constexpr const char* kTexts[] = {"model.id", "app.id"};
constexpr const char* kFlags[] = {"model.moe", "hardware.memory.unified"};
constexpr const char* kEngines[] = {"mlx", "vllm", "exo"};
constexpr const char* kTargets[] = {"cpu", "vulkan", "opencl", "vllm", "sglang"};

// "T", "F" or "?"
char truth_of(const Expr& e, const NaiveFacts& facts) {
  if (e.op == "not") {
    const char t = truth_of(e.parts[0], facts);
    return t == 'T' ? 'F' : t == 'F' ? 'T' : '?';
  }
  if (e.op == "all" || e.op == "any") {
    std::string seen;
    for (const Expr& part : e.parts) seen += truth_of(part, facts);
    const char settles = e.op == "all" ? 'F' : 'T';
    if (seen.find(settles) != std::string::npos) return settles;
    return seen.find('?') != std::string::npos ? '?' : e.op == "all" ? 'T' : 'F';
  }
  const auto it = facts.find(e.fact);
  if (e.op == "exists") return (it != facts.end()) == (e.operands[0] == "true") ? 'T' : 'F';
  if (it == facts.end()) return '?';
  bool holds = false;
  if (e.op == "eq") holds = it->second == e.operands[0];
  if (e.op == "ne") holds = it->second != e.operands[0];
  if (e.op == "in")
    for (const std::string& operand : e.operands)
      holds |= ("," + it->second + ",").find("," + operand + ",") != std::string::npos;
  if (e.op[0] == 'g' || e.op[0] == 'l') {
    const double is = std::stod(it->second), than = std::stod(e.operands[0]);
    holds = e.op == "gt" ? is > than : e.op == "gte" ? is >= than : e.op == "lt" ? is < than : is <= than;
  }
  return holds ? 'T' : 'F';
}

struct Outcome {
  std::string target, rule;
  bool queue = false;
  std::vector<std::string> tried = {};  // the target, then its alternatives, each once
  bool ends = false;                    // nothing behind the rule is an alternative
};

void add_once(const std::string& target, std::vector<std::string>& targets) {
  if (std::find(targets.begin(), targets.end(), target) == targets.end()) targets.push_back(target);
}

bool usable(const NaiveTree& tree, const NaiveFacts& facts, const std::string& target, bool& denied) {
  for (const auto& [when, deny] : tree.constraints)
    for (const std::string& name : deny) {
      const bool meant = name == target || (name == "remote" && (target == "vllm" || target == "sglang"));
      if (meant && truth_of(when, facts) != 'F') denied = true;
    }
  const auto it = facts.find("backend." + target + ".available");
  return !denied && it != facts.end() && it->second == "true";
}

std::optional<long> microseconds(const NaiveFacts& facts, const std::string& target,
                                 const std::string& fact = "expected_total") {
  const auto it = facts.find("backend." + target + "." + fact);
  return it == facts.end() ? std::nullopt : std::optional(std::stol(it->second));
}

std::string fastest(const NaiveFacts& facts, const std::vector<std::string>& usable) {
  std::vector<long> times;
  for (const std::string& target : usable)
    if (const auto time = microseconds(facts, target)) times.push_back(*time);
  if (times.empty()) return usable.front();
  std::sort(times.begin(), times.end());
  std::vector<std::string> near;
  for (const std::string& target : usable)
    if (const auto time = microseconds(facts, target); time && 10 * *time <= 11 * times.front())
      near.push_back(target);
  const auto loaded = std::find_if(near.begin(), near.end(), [&](const std::string& target) {
    const auto it = facts.find("backend." + target + ".loaded");
    return it != facts.end() && it->second == "true";
  });
  return loaded == near.end() ? near.front() : *loaded;
}

// The targets about as considerate as the least, where none is late while another holds the deadline. Empty
// delays: all that are not late. `tried`: an unknown delay counts as near.
std::vector<std::string> near_least_delay(const NaiveFacts& facts, std::vector<std::string> targets,
                                          bool tried = false) {
  const auto time = [&](const std::string& target) { return microseconds(facts, target); };
  if (const auto deadline = facts.find("app.slo.deadline"); deadline != facts.end()) {
    const long most = 1000 * std::stol(deadline->second);
    const auto is_late = [&](const std::string& target) { return time(target).value_or(0) > most; };
    const auto holds = [&](const std::string& target) { return time(target) && !is_late(target); };
    if (std::any_of(targets.begin(), targets.end(), holds)) std::erase_if(targets, is_late);
  }
  const auto delay = [&](const std::string& target) {
    return microseconds(facts, target, "expected_delay_to_others");
  };
  std::vector<long> delays;
  for (const std::string& target : targets)
    if (delay(target)) delays.push_back(*delay(target));
  if (delays.empty()) return targets;
  const long least = *std::min_element(delays.begin(), delays.end());
  std::erase_if(targets, [&](const std::string& target) {
    if (!delay(target)) return !tried;
    return *delay(target) > least + 1000 && 10 * *delay(target) > 11 * least;
  });
  return targets;
}

std::string considerate(const NaiveFacts& facts, const std::vector<std::string>& usable) {
  const std::vector<std::string> targets = near_least_delay(facts, usable);
  const auto time = [&](const std::string& target) { return microseconds(facts, target); };
  const bool none_known = std::none_of(targets.begin(), targets.end(), [&](const std::string& target) {
    return microseconds(facts, target, "expected_delay_to_others").has_value();
  });
  if (none_known) return targets.front();
  return *std::min_element(targets.begin(), targets.end(), [&](const std::string& a, const std::string& b) {
    return time(a).value_or(1'000'000) < time(b).value_or(1'000'000);
  });
}

// Empty: it misses the SLO, and the search goes on.
std::string predicted(const NaiveFacts& facts, const NaiveRule& rule,
                      const std::vector<std::string>& usable) {
  if (rule.pick == "fastest") return fastest(facts, usable);
  if (rule.pick == "considerate") return considerate(facts, usable);
  if (rule.pick != "meets_slo") return usable.front();
  bool late = false;
  for (const std::string& target : usable)
    if (const auto it = facts.find("backend." + target + ".meets_slo"); it != facts.end()) {
      if (it->second == "true") return target;
      late = true;
    }
  const bool has_slo = facts.contains("app.slo.deadline") || facts.contains("app.slo.ttft");
  if (!late && rule.on_slo_miss == "fastest" && !has_slo) return fastest(facts, usable);
  if (!late || rule.on_slo_miss == "first") return usable.front();
  return rule.on_slo_miss == "fastest" ? fastest(facts, usable) : "";
}

// A target that is to be tried goes first if it stands before the predicted one.
std::string picked(const NaiveFacts& facts, const NaiveRule& rule, const std::vector<std::string>& usable) {
  const std::string taken = predicted(facts, rule, usable);
  const std::vector<std::string> near = near_least_delay(facts, usable, true);
  if (!rule.pick.empty() && rule.pick != "first")
    for (const std::string& target : usable) {
      if (target == taken) break;
      if (rule.pick == "considerate" && std::find(near.begin(), near.end(), target) == near.end()) continue;
      if (facts.contains("backend." + target + ".trial_due")) return target;
    }
  return taken;
}

std::optional<Outcome> settle(const NaiveTree& tree, const NaiveFacts& facts, const NaiveRule& rule,
                              std::string& advice, std::vector<std::string>& missed) {
  bool waitable = false;
  std::vector<std::string> tried;
  for (const std::string& target : rule.use) {
    bool denied = false;
    if (usable(tree, facts, target, denied)) add_once(target, tried);
    waitable |= !denied;
  }
  if (advice.empty() && (waitable || rule.use.empty())) advice = rule.engine;
  const bool ends = rule.on_unavailable != "next";
  if (!tried.empty()) {
    const std::string target = picked(facts, rule, tried);
    std::vector<std::string> order;
    if (!target.empty()) order.push_back(target);
    for (const std::string& other : missed) add_once(other, order);
    for (const std::string& other : tried) add_once(other, order);
    if (!target.empty()) return Outcome{target, rule.id, false, order, ends};
    missed = order;
    return std::nullopt;
  }
  if (rule.use.empty() || !ends) return std::nullopt;
  return Outcome{"", rule.id, rule.on_unavailable == "queue" && waitable, {}, ends};
}

std::optional<Outcome> walk(const NaiveTree& tree, const NaiveFacts& facts,
                            const std::vector<NaiveRule>& rules, std::string& advice,
                            std::vector<std::string>& missed) {
  for (const NaiveRule& rule : rules) {
    if (rule.when && truth_of(*rule.when, facts) != 'T') continue;
    const auto found = rule.rules.empty() ? settle(tree, facts, rule, advice, missed)
                                          : walk(tree, facts, rule.rules, advice, missed);
    if (found) return found;
  }
  return std::nullopt;
}

Outcome decide_naively(const NaiveTree& tree, const NaiveFacts& facts, std::string& advice) {
  std::vector<std::string> missed;  // the SLO: alternatives to what is chosen behind them
  auto found = walk(tree, facts, tree.rules, advice, missed);
  if (!found) return *settle(tree, facts, tree.fallback, advice, missed);
  bool denied = false;
  if (!found->ends)
    for (const std::string& target : tree.fallback.use)
      if (denied = false; usable(tree, facts, target, denied)) add_once(target, found->tried);
  return *found;
}

std::vector<std::string> tried(const Decision& d) {
  std::vector<std::string> out;
  if (!d.target) return out;
  out.push_back(d.target->backend);
  for (const TargetTrace& trace : d.targets)
    if (trace.verdict == Verdict::available) add_once(trace.target->backend, out);
  return out;
}

// ---- random trees, facts, and their YAML ------------------------------------------------------------------

class Maker {
 public:
  explicit Maker(std::uint32_t seed) : random_(seed) {}

  NaiveTree tree() {
    NaiveTree out;
    for (int i = below(3); i > 0; --i)
      out.constraints.push_back({expr(2), {below(2) ? "remote" : pick(kTargets)}});
    out.rules = rules(below(5), 2);
    out.fallback = {"default", std::nullopt, targets(), below(2) ? "queue" : "fail", {}, {}};
    set_pick(out.fallback);
    if (out.fallback.on_slo_miss == "next") out.fallback.on_slo_miss = "first";
    return out;
  }

  NaiveFacts facts() {
    NaiveFacts out;
    for (const char* name : kIntegers)
      if (below(3)) out[name] = std::to_string(below(4));
    for (const char* name : kNumbers)
      if (below(3)) out[name] = pick(kFractions);
    for (const char* name : kTexts)
      if (below(3)) out[name] = pick(kWords);
    if (below(3)) out[kList] = below(2) ? pick(kModalities) : pick(kModalities) + "," + pick(kModalities);
    for (const char* name : kFlags)
      if (below(3)) out[name] = below(2) ? "true" : "false";
    for (const char* target : kTargets)
      if (below(4)) out[std::string("backend.") + target + ".available"] = below(5) < 3 ? "true" : "false";
    const bool any_slo = below(3), any_time = below(3), any_trial = below(2), any_delay = below(4);
    if (!below(3)) out["app.slo.deadline"] = "1";
    if (!below(4)) out["app.slo.ttft"] = "1";
    for (const char* target : kTargets) {
      const std::string prefix = std::string("backend.") + target + ".";
      if (any_time && below(4)) out[prefix + "expected_total"] = std::to_string(10 * (95 + below(30)));
      if (any_delay && below(4))
        out[prefix + "expected_delay_to_others"] = std::to_string((below(2) ? 500 : 11'000) + 600 * below(4));
      if (any_slo && below(4)) out[prefix + "meets_slo"] = below(3) ? "false" : "true";
      if (below(3)) out[prefix + "loaded"] = below(2) ? "true" : "false";
      if (any_trial && !below(3)) out[prefix + "trial_due"] = "true";
    }
    return out;
  }

 private:
  void set_pick(NaiveRule& rule) {
    constexpr const char* kPicks[] = {"first", "fastest", "meets_slo", "considerate"};
    constexpr const char* kMisses[] = {"next", "fastest", "first"};
    if (below(4)) rule.pick = pick(kPicks);
    if (rule.pick == "meets_slo") rule.on_slo_miss = pick(kMisses);
  }

  static constexpr const char* kWords[] = {"a", "b", "c"};
  static constexpr const char* kFractions[] = {"0.25", "1.5", "2.75"};
  static constexpr const char* kModalities[] = {"text", "image", "audio"};
  static constexpr const char* kOrders[] = {"eq", "ne", "gt", "gte", "lt", "lte"};

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  template <std::size_t N>
  std::string pick(const char* const (&names)[N]) {
    return names[below(static_cast<int>(N))];
  }

  std::vector<NaiveRule> rules(int n, int depth) {
    std::vector<NaiveRule> out;
    for (; n > 0; --n) {
      NaiveRule rule;
      rule.id = "r" + std::to_string(next_id_++);
      if (below(6)) rule.when = expr(3);
      if (depth > 0 && below(3) == 0)
        rule.rules = rules(1 + below(3), depth - 1);
      else if (below(4))
        rule.use = targets(),
        rule.on_unavailable = below(4)   ? "next"
                              : below(2) ? "queue"
                                         : "fail",
        set_pick(rule);
      if (rule.rules.empty() && (rule.use.empty() || below(2))) rule.engine = pick(kEngines);
      out.push_back(std::move(rule));
    }
    return out;
  }

  std::vector<std::string> targets() {
    std::vector<std::string> out;
    for (int i = 1 + below(3); i > 0; --i) out.push_back(pick(kTargets));
    return out;
  }

  Expr expr(int depth) {
    if (depth > 0 && below(2)) {
      const char* const kinds[] = {"all", "any", "not"};
      Expr e{pick(kinds), "", {}, {}};
      for (int i = e.op == "not" ? 1 : 1 + below(3); i > 0; --i) e.parts.push_back(expr(depth - 1));
      return e;
    }
    const int type = below(5);
    const std::string fact = type == 0   ? pick(kIntegers)
                             : type == 1 ? pick(kTexts)
                             : type == 2 ? pick(kFlags)
                             : type == 3 ? pick(kNumbers)
                                         : kList;
    if (below(5) == 0) return {"exists", fact, {below(2) ? "true" : "false"}, {}};
    if (type == 0) return {pick(kOrders), fact, {std::to_string(below(4))}, {}};
    if (type == 3) return {pick(kOrders), fact, {pick(kFractions)}, {}};
    if (type == 4) return {"in", fact, {pick(kModalities), pick(kModalities)}, {}};
    if (type == 1 && below(2)) return {"in", fact, {pick(kWords), pick(kWords)}, {}};
    return {below(2) ? "eq" : "ne", fact, {type == 1 ? pick(kWords) : below(2) ? "true" : "false"}, {}};
  }

  std::mt19937 random_;
  int next_id_ = 0;
};

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return "[" + out + "]";
}

std::string yaml(const Expr& e) {
  if (e.op == "not") return "{not: " + yaml(e.parts[0]) + "}";
  if (e.op == "all" || e.op == "any") {
    std::vector<std::string> parts;
    for (const Expr& part : e.parts) parts.push_back(yaml(part));
    return "{" + e.op + ": " + joined(parts) + "}";
  }
  return "{fact: " + e.fact + ", " + e.op + ": " + (e.op == "in" ? joined(e.operands) : e.operands[0]) + "}";
}

std::string yaml_of_pick(const NaiveRule& rule) {
  return (rule.pick.empty() ? "" : ", pick: " + rule.pick) +
         (rule.on_slo_miss.empty() ? "" : ", on_slo_miss: " + rule.on_slo_miss);
}

std::string yaml(const NaiveRule& rule) {
  std::string out = "{id: " + rule.id + ", because: b";
  if (rule.when) out += ", when: " + yaml(*rule.when);
  if (!rule.engine.empty()) out += ", engine: " + rule.engine;
  if (!rule.use.empty())
    out += ", use: " + joined(rule.use) + ", on_unavailable: " + rule.on_unavailable + yaml_of_pick(rule);
  if (!rule.rules.empty()) {
    std::vector<std::string> parts;
    for (const NaiveRule& child : rule.rules) parts.push_back(yaml(child));
    out += ", rules: " + joined(parts);
  }
  return out + "}";
}

// Broken at commas where it can be, because lines are limited.
std::string yaml(const NaiveTree& tree) {
  std::string out =
      "schema: flyball.policy/v1\nconstraints:" + std::string(tree.constraints.empty() ? " {}\n" : "\n");
  for (std::size_t i = 0; i < tree.constraints.size(); ++i)
    out += "  c" + std::to_string(i) + ": {because: b, when: " + yaml(tree.constraints[i].first) +
           ", deny: " + joined(tree.constraints[i].second) + "}\n";
  out += "rules:" + std::string(tree.rules.empty() ? " []\n" : "\n");
  for (const NaiveRule& rule : tree.rules) {
    std::string text = yaml(rule);
    for (std::size_t at = 0; (at = text.find(", ", at)) != std::string::npos; at += 9)
      text.replace(at, 2, ",\n      ");
    out += "  - " + text + "\n";
  }
  return out + "default: {because: b, use: " + joined(tree.fallback.use) +
         ", on_unavailable: " + tree.fallback.on_unavailable + yaml_of_pick(tree.fallback) + "}\n";
}

Facts typed(const NaiveFacts& naive) {
  Facts facts;
  for (const auto& [name, value] : naive) switch (default_targets()->facts()[*find_fact(name)].type) {
      case FactType::boolean:
        facts.set(name, value == "true", "test");
        break;
      case FactType::integer:
        facts.set(name, std::int64_t{std::stoll(value)}, "test");
        break;
      case FactType::number:
        facts.set(name, std::stod(value), "test");
        break;
      case FactType::text_list: {
        std::vector<std::string> members;
        std::istringstream rest(value);
        for (std::string member; std::getline(rest, member, ',');) members.push_back(member);
        facts.set(name, std::move(members), "test");
        break;
      }
      default:
        facts.set(name, value, "test");
        break;
    }
  return facts;
}

TEST(RandomTrees, AgreeWithANaiveEvaluator) {
  constexpr std::uint32_t kTrees = 15'000;
  const char* const given = std::getenv("FLYBALL_SEED");
  const auto first = given ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10)) : 1U;
  std::printf("seeds from %u\n", first);
  int chosen = 0, queued = 0, refused = 0, advised = 0, picked_another = 0, missed = 0, tried_first = 0,
      least = 0, near = 0;
  Decision kept;  // used again for every tree, as the daemon does
  for (std::uint32_t i = 0; i < kTrees; ++i) {
    const std::uint32_t seed = first + i;
    Maker make(seed);
    const NaiveTree naive = make.tree();
    const std::string text = yaml(naive);
    const auto tree = parse_policy(text, "random.yaml");
    ASSERT_TRUE(tree) << "seed " << seed << ": " << tree.error().where << " " << tree.error().message << "\n"
                      << text;
    (void)lint(*tree);
    // Another tree of the same text gives the same receipts, which are long to write: every eighth is asked.
    const auto again = i % 8 == 0 ? std::optional(parse_policy(text, "random.yaml")) : std::nullopt;
    ASSERT_TRUE(!again || *again) << "seed " << seed;
    for (int set = 0; set < 2; ++set) {
      const NaiveFacts naive_facts = make.facts();
      const Facts facts = typed(naive_facts);
      std::string advice;
      const Outcome expected = decide_naively(naive, naive_facts, advice);
      decide(*tree, facts, kept);
      const Decision& d = kept;
      const std::string target = d.target ? d.target->backend : "";
      ASSERT_EQ(target, expected.target) << "seed " << seed << " set " << set << "\n" << text;
      ASSERT_EQ(d.rule->id, expected.rule) << "seed " << seed << " set " << set << "\n" << text;
      ASSERT_EQ(d.queue, expected.queue) << "seed " << seed << " set " << set << "\n" << text;
      ASSERT_EQ(tried(d), expected.tried) << "seed " << seed << " set " << set << "\n" << text;
      ASSERT_EQ(d.advice ? d.advice->engine : "", advice) << "seed " << seed << " set " << set << "\n"
                                                          << text;
      advised += d.advice != nullptr;
      if (again) {
        const Facts same = typed(naive_facts);
        ASSERT_EQ(receipt(d, facts).dump(), receipt(decide(**again, same), same).dump()) << "seed " << seed;
      }
      for (const PickTrace& trace : d.picks) {
        const std::uint32_t end = trace.first_target + trace.picked.at;
        bool another = false;
        for (std::uint32_t at = trace.first_target; at < end; ++at)
          another |= d.targets[at].verdict == Verdict::available;
        picked_another += another;
        missed += trace.picked.by == Picked::By::nothing;
        tried_first += trace.picked.by == Picked::By::trial;
        least += trace.picked.by == Picked::By::least_delay;
        near += trace.picked.by == Picked::By::near_delay;
      }
      chosen += d.target != nullptr;
      queued += d.queue;
      refused += d.target == nullptr && !d.queue;
    }
  }
  // The trees must exercise every ending.
  EXPECT_GT(chosen, 5000);
  EXPECT_GT(queued, 500);
  EXPECT_GT(refused, 500);
  EXPECT_GT(advised, 5000);
  EXPECT_GT(picked_another, 200);
  EXPECT_GT(missed, 100);
  EXPECT_GT(least, 100);
  EXPECT_GT(near, 10);
  EXPECT_GT(tried_first, 50);
}

}  // namespace
}  // namespace flyball::policy
