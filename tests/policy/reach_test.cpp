// The search for facts that lead somewhere: every answer "possible" comes with facts on which decide() does
// it, and no decision that is found by trying contradicts an answer "never".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "config/config.hpp"
#include "policy/decide.hpp"
#include "policy/reach.hpp"

namespace flyball::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Tree reach_tree(const std::string& text) {
  auto tree = parse_policy("schema: flyball.policy/v1\n" + text, "p.yaml");
  EXPECT_TRUE(tree) << tree.error().where << ": " << tree.error().message;
  return std::move(*tree);
}

template <class F>
void each_place(const std::vector<Rule>& rules, const F& f) {
  for (const Rule& rule : rules) {
    for (const Target& target : rule.use) f(rule, target);
    each_place(rule.rules, f);
  }
}
template <class F>
void each_place(const Tree& tree, const F& f) {
  each_place(tree.rules, f);
  for (const Target& target : tree.fallback.use) f(tree.fallback, target);
}

void expect_witness(const Tree& tree, const Rule& rule, const Target& target, const ReachAnswer& answer) {
  const Decision d = decide(tree, answer.facts);
  ASSERT_TRUE(d.target) << rule.id << " " << to_string(target);
  EXPECT_EQ(d.rule->id, rule.id) << to_string(target);
  EXPECT_EQ(to_string(*d.target), to_string(target)) << rule.id;
}

// What the dispatcher sends a request to, or goes on to.
bool may_be_tried(const TargetTrace& trace) {
  return trace.verdict == Verdict::chosen || trace.verdict == Verdict::available;
}
bool tries_backend(const Decision& d, std::string_view backend) {
  return std::ranges::any_of(d.targets, [&](const TargetTrace& trace) {
    return may_be_tried(trace) && trace.target->backend == backend;
  });
}

// Every target of the shipped policy can be had, and the facts found show how.
TEST(Reach, EveryTargetOfTheShippedPolicyIsReached) {
  const auto tree = parse_policy(config::default_policy_yaml(), "policy.yaml");
  ASSERT_TRUE(tree);
  each_place(*tree, [&](const Rule& rule, const Target& target) {
    const ReachAnswer answer = reach(*tree, rule, target, Role::chosen, {});
    ASSERT_EQ(answer.reach, Reach::possible) << rule.id << " " << to_string(target);
    expect_witness(*tree, rule, target, answer);
  });
  EXPECT_THAT(dead_ends(*tree), IsEmpty());
}

// ---- random trees -----------------------------------------------------------------------------------------

class Trees {
 public:
  explicit Trees(std::uint32_t seed) : random_(seed) {}

  std::string tree() {
    std::string out;
    if (below(2)) out += "constraints: {stay: {because: b, when: " + condition(1) + ", deny: [remote]}}\n";
    out += "rules: [" + rules(2 + below(4), 1) + "]\n";
    return out + "default: {because: b, use: [cpu, vllm]}\n";
  }
  Facts facts() {
    Facts out;
    if (below(4)) out.set("hardware.gpu.count", std::int64_t{below(5)}, "t");
    if (below(4)) out.set("workload.concurrency", std::int64_t{below(5)}, "t");
    if (below(4)) out.set("model.moe", below(2) != 0, "t");
    if (below(4)) out.set("app.privacy", std::string(below(2) ? "any" : "local_only"), "t");
    if (below(3) == 0) out.set("app.slo.ttft", std::int64_t{500}, "t");
    if (below(4)) out.set("model.id", std::string(below(2) ? "a" : "b"), "t");
    if (below(4)) out.set("workload.modalities", std::vector<std::string>{below(2) ? "text" : "image"}, "t");
    for (const char* backend : {"cpu", "vulkan", "vllm"}) {
      const std::string prefix = std::string("backend.") + backend;
      if (below(4)) out.set(prefix + ".available", below(3) != 0, "t");
      if (below(4)) out.set(prefix + ".meets_slo", below(2) != 0, "t");
      if (below(4)) out.set(prefix + ".expected_total", std::int64_t{below(300)}, "t");
      if (below(4)) out.set(prefix + ".expected_delay_to_others", std::int64_t{10 * below(300)}, "t");
      if (below(4) == 0) out.set(prefix + ".trial_due", below(3) != 0, "t");
    }
    return out;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::string number(int value) { return std::to_string(value); }

  std::string rules(int n, int depth) {
    std::string out;
    for (; n > 0; --n) {
      out += "\n {id: r" + number(next_id_++) + ", because: b";
      if (below(5)) out += ", when: " + condition(2);
      if (depth > 0 && below(3) == 0) {
        out += ", rules: [" + rules(1 + below(2), depth - 1) + "]}";
      } else if (below(6) == 0) {
        out += ", engine: mlx}";
      } else {
        const char* const uses[] = {"cpu", "[vulkan, cpu]", "[vllm, vulkan]", "[vulkan, vulkan:latency]",
                                    "vllm"};
        const char* const ends[] = {"next", "next", "queue", "fail"};
        const char* const picks[] = {"",
                                     "",
                                     ", pick: fastest",
                                     ", pick: considerate",
                                     ", pick: meets_slo",
                                     ", pick: meets_slo, on_slo_miss: fastest",
                                     ", pick: meets_slo, on_slo_miss: first"};
        out += std::string(", use: ") + uses[below(5)] + ", on_unavailable: " + ends[below(4)] +
               picks[below(7)] + "}";
      }
      if (n > 1) out += ",";
    }
    return out;
  }
  std::string condition(int depth) {
    if (depth > 0 && below(2)) {
      if (below(3) == 0) return "{not: " + condition(depth - 1) + "}";
      const std::string kind = below(2) ? "all" : "any";
      return "{" + kind + ": [" + condition(depth - 1) + ", " + condition(depth - 1) + "]}";
    }
    const char* const ops[] = {"eq", "ne", "gt", "gte", "lt", "lte"};
    switch (below(10)) {
      case 9:
        return std::string("{fact: backend.vulkan.trial_due, eq: ") + (below(2) ? "true" : "false") + "}";
      case 7:
        return std::string("{fact: backend.vulkan.meets_slo, eq: ") + (below(2) ? "true" : "false") + "}";
      case 8:
        return std::string("{fact: backend.cpu.expected_total, ") + ops[below(6)] + ": " +
               number(below(300)) + "}";
      case 0:
        return std::string("{fact: hardware.gpu.count, ") + ops[below(6)] + ": " + number(below(4)) + "}";
      case 1:
        return std::string("{fact: workload.concurrency, ") + ops[below(6)] + ": " + number(below(4)) + "}";
      case 2:
        return std::string("{fact: model.moe, eq: ") + (below(2) ? "true" : "false") + "}";
      case 3:
        return std::string("{fact: app.privacy, eq: ") + (below(2) ? "any" : "local_only") + "}";
      case 4:
        return std::string("{fact: model.id, in: [") + (below(2) ? "a" : "b, c") + "]}";
      case 5:
        return std::string("{fact: workload.modalities, in: [") + (below(2) ? "text" : "image, audio") + "]}";
      default:
        return std::string("{fact: ") + (below(2) ? "model.id" : "backend.vllm.available") +
               ", exists: " + (below(2) ? "true" : "false") + "}";
    }
  }

  std::mt19937 random_;
  int next_id_ = 0;
};

TEST(Reach, AgreesWithDecisionsOfRandomTrees) {
  int possible = 0, never = 0, undecided = 0, never_tried = 0, tried = 0, alternatives = 0;
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    Trees make(seed);
    const std::string text = make.tree();
    const Tree tree = reach_tree(text);
    std::map<std::pair<const Rule*, const Target*>, Reach> answers, tries;
    each_place(tree, [&](const Rule& rule, const Target& target) {
      SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
      const ReachAnswer answer = reach(tree, rule, target, Role::chosen, {});
      const bool is_second_profile = rule.use[0].backend == target.backend && &target != &rule.use[0];
      ASSERT_TRUE(is_second_profile || answer.reach != Reach::undecided);
      answers[{&rule, &target}] = answer.reach;
      if (answer.reach == Reach::undecided) {
        ++undecided;
      } else if (answer.reach == Reach::possible) {
        ++possible;
        expect_witness(tree, rule, target, answer);
      } else {
        ++never;
      }
      const ReachAnswer any = reach(tree, rule, target, Role::tried, {});
      ASSERT_TRUE(is_second_profile || any.reach != Reach::undecided);
      tries[{&rule, &target}] = any.reach;
      if (any.reach == Reach::possible) {
        EXPECT_TRUE(tries_backend(decide(tree, any.facts), target.backend));
      }
      never_tried += any.reach == Reach::never;
    });
    for (int i = 0; i < 300; ++i) {
      const Facts facts = make.facts();
      const Decision d = decide(tree, facts);
      for (const TargetTrace& trace : d.targets)
        if (may_be_tried(trace)) {
          ASSERT_EQ(tries.at({trace.rule, trace.target}), Reach::possible)
              << "seed " << seed << " " << trace.rule->id << "\n"
              << text;
          alternatives += trace.verdict == Verdict::available;
        }
      if (!d.target) continue;
      ++tried;
      const Reach answer = answers.at({d.rule, d.target});
      ASSERT_EQ(answer, Reach::possible) << "seed " << seed << " " << d.rule->id << "\n" << text;
    }
  }
  EXPECT_GT(possible, 1000);
  EXPECT_GT(never, 200);
  EXPECT_GT(undecided, 10);
  EXPECT_GT(never_tried, 50);
  EXPECT_GT(tried, 20'000);
  EXPECT_GT(alternatives, 10'000);
}

// The targets before it can be used, and it is faster.
TEST(Reach, WithoutAnSloTheFastestIsReached) {
  const Tree tree = reach_tree(
      "rules:\n"
      "  - id: r\n    because: b\n    use: [opencl, cpu]\n    pick: meets_slo\n    on_slo_miss: fastest\n"
      "    when: {all: [{fact: backend.opencl.available, eq: true}, {fact: backend.opencl.meets_slo, exists: "
      "false},\n"
      "                 {fact: backend.cpu.meets_slo, exists: false}, {fact: backend.cpu.trial_due, exists: "
      "false}]}\n"
      "default: {because: b, use: vulkan}\n");
  const Target& cpu = tree.rules[0].use[1];
  const ReachAnswer answer = reach(tree, tree.rules[0], cpu, Role::chosen, {});
  ASSERT_EQ(answer.reach, Reach::possible);
  EXPECT_EQ(decide(tree, answer.facts).target, &cpu);
  EXPECT_THAT(dead_ends(tree), IsEmpty());
}

// ---- proofs -----------------------------------------------------------------------------------------------

std::vector<Condition> local_only() {
  return {*assumption("app.privacy=local_only")};
}

TEST(Prove, TheShippedPolicyKeepsLocalPromptsHere) {
  const auto tree = parse_policy(config::default_policy_yaml(), "policy.yaml");
  ASSERT_TRUE(tree);
  const Proof proof = prove_never(*tree, "remote", local_only());
  EXPECT_TRUE(proof.holds());
  EXPECT_GT(proof.places, 10U);
  EXPECT_FALSE(prove_never(*tree, "remote", {}).holds());  // without the assumption it is no theorem
}

// The constraint leaves a gap, and the facts that fit through it are found.
TEST(Prove, AGapIsShownWithFacts) {
  const Tree tree = reach_tree(
      "constraints: {stay: {because: b, when: {all: [{fact: app.privacy, eq: local_only}, {fact: model.moe, "
      "eq: "
      "false}]}, deny: [remote]}}\n"
      "rules:\n"
      "  - {id: big, because: b, when: {fact: workload.concurrency, gte: 8}, use: [opencl, vllm]}\n"
      "default: {because: b, use: cpu}\n");
  const Proof proof = prove_never(tree, "remote", local_only());
  ASSERT_EQ(proof.open.size(), 1U);
  const Facts& facts = proof.open[0].answer.facts;
  EXPECT_EQ(proof.open[0].rule->id, "big");
  EXPECT_EQ(facts.get("app.privacy")->value, FactValue(std::string("local_only")));
  EXPECT_EQ(facts.get("model.moe")->value, FactValue(true));
  const Decision d = decide(tree, facts);
  EXPECT_EQ(to_string(*d.target), "vllm");
  EXPECT_TRUE(prove_never(tree, "sglang", {}).holds());
  EXPECT_EQ(prove_never(tree, "sglang", {}).places, 0U);
}

// A proof is of all that a request may be sent to: where the chosen engine cannot be started, or ends, it
// goes on to the alternatives.
TEST(Prove, AlternativesCount) {
  const std::string rule =
      "rules:\n  - {id: stays, because: b, when: {fact: app.privacy, eq: local_only}, use: [cpu, vulkan]";
  const std::string fallback = "}\ndefault: {because: b, use: [vllm, cpu]}\n";
  const Tree open = reach_tree(rule + fallback);
  const Proof found = prove_never(open, "remote", local_only());
  ASSERT_EQ(found.open.size(), 1U);
  const Facts& facts = found.open[0].answer.facts;
  EXPECT_EQ(facts.get("app.privacy")->value, FactValue(std::string("local_only")));
  EXPECT_TRUE(tries_backend(decide(open, facts), "vllm"));
  // An alternative of the rule's own.
  EXPECT_FALSE(prove_never(open, "vulkan", local_only()).holds());

  for (const char* end : {"fail", "queue"}) {
    const Tree shut = reach_tree(rule + ", on_unavailable: " + end + fallback);
    EXPECT_TRUE(prove_never(shut, "remote", local_only()).holds()) << end;
    EXPECT_FALSE(prove_never(shut, "remote", {}).holds()) << end;
    EXPECT_FALSE(prove_never(shut, "vulkan", local_only()).holds()) << end;
  }
  // What is never chosen, because another stands before it, is tried all the same.
  const Tree second = reach_tree(
      "rules:\n  - {id: r, because: b, use: [cpu, \"cpu:latency\"], on_unavailable: fail}\n"
      "default: {because: b, use: vllm}\n");
  EXPECT_EQ(reach(second, second.rules[0], second.rules[0].use[1], Role::chosen, {}).reach, Reach::never);
  EXPECT_EQ(reach(second, second.rules[0], second.rules[0].use[1], Role::tried, {}).reach, Reach::possible);
}

// From what cannot be, anything follows: such a proof is none.
TEST(Prove, AssumptionsThatContradictEachOtherAreTold) {
  const Tree tree = reach_tree("default: {because: b, use: cpu}\n");
  const auto possible = [&](std::initializer_list<const char*> assume) {
    std::vector<Condition> conditions;
    for (const char* one : assume) conditions.push_back(*assumption(one));
    return prove_never(tree, "cpu", conditions).possible;
  };
  EXPECT_TRUE(possible({}));
  EXPECT_TRUE(possible({"app.privacy=local_only", "workload.modalities=text", "workload.modalities=image"}));
  EXPECT_FALSE(possible({"app.privacy=local_only", "app.privacy=any"}));
  EXPECT_FALSE(possible({"workload.concurrency=1", "workload.concurrency=2"}));
  EXPECT_FALSE(assumption("workload.concurrency=-1"));
}

// ---- dead ends --------------------------------------------------------------------------------------------

std::vector<std::string> findings(const std::string& text) {
  std::vector<std::string> out;
  for (const LintFinding& finding : dead_ends(reach_tree(text)))
    out.push_back(finding.where + " " + finding.message);
  return out;
}

// Many rules about the same few facts are the search's worst case. It ends, and says where it gave up.
TEST(DeadEnds, WhatIsNotSettledIsCounted) {
  const char* const facts[] = {"workload.concurrency",   "workload.prompt_tokens",
                               "workload.output_tokens", "workload.batch_size",
                               "hardware.gpu.count",     "hardware.cpu.cores",
                               "hardware.cpu.threads",   "model.context",
                               "model.parameters",       "request.n",
                               "request.max_tokens",     "request.prompt_bytes"};
  std::mt19937 random(1);
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  const auto text_of = [&](int rules) {
    std::string text = "rules:\n";
    for (int i = 0; i < rules; ++i) {
      text += "  - {id: r" + std::to_string(i) + ", because: b, use: [vulkan, opencl], when: {all: [";
      for (int c = 0; c < 3; ++c)
        text += std::string(c ? ", " : "") + "{fact: " + facts[below(12)] +
                (below(2) ? ", gte: " : ", lt: ") + std::to_string(below(100)) + "}";
      text += "]}}\n";
    }
    return text + "default: {because: b, use: cpu}\n";
  };
  const auto unsettled = [&](int rules) {
    bool told = false;
    for (const LintFinding& finding : dead_ends(reach_tree(text_of(rules))))
      told |= finding.message.find("not settled: whether any facts lead there") != std::string::npos &&
              finding.where == "p.yaml";
    return told;
  };
  EXPECT_FALSE(unsettled(10));
  EXPECT_TRUE(unsettled(400));
}

TEST(DeadEnds, AreNamedWithTheirPlace) {
  const std::string fallback = "default: {because: b, use: cpu}\n";
  // 8 and more is 4 and more, which ends the search.
  EXPECT_THAT(
      findings("rules:\n"
               "  - {id: four, because: b, when: {fact: workload.concurrency, gte: 4}, use: vulkan, "
               "on_unavailable: fail}\n"
               "  - {id: eight, because: b, when: {fact: workload.concurrency, gte: 8}, use: opencl}\n" +
               fallback),
      ElementsAre(HasSubstr("p.yaml:4:5 rule \"eight\" never decides")));
  // What is behind a rule that was true has been passed over already.
  EXPECT_THAT(
      findings("rules:\n"
               "  - {id: four, because: b, when: {fact: workload.concurrency, gte: 4}, use: vulkan}\n"
               "  - {id: eight, because: b, when: {fact: workload.concurrency, gte: 8}, use: [vulkan, "
               "opencl]}\n" +
               fallback),
      ElementsAre(HasSubstr("p.yaml:4:79 target vulkan of rule \"eight\" is never chosen")));
  // Two branches cover everything that is known, and the unknown is left for the default.
  EXPECT_THAT(findings("rules:\n"
                       "  - {id: moe, because: b, when: {fact: model.moe, eq: true}, use: cpu}\n"
                       "  - {id: dense, because: b, when: {fact: model.moe, eq: false}, use: cpu}\n" +
                       fallback),
              IsEmpty());
  EXPECT_THAT(findings("rules:\n"
                       "  - {id: all, because: b, use: cpu}\n" +
                       fallback),
              ElementsAre(HasSubstr("p.yaml:4:10 rule \"default\" never decides")));
}

}  // namespace
}  // namespace flyball::policy
