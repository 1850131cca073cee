// policy.yaml: its table, and the steps from the value tree to the typed decision tree.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "config/digest.hpp"
#include "config/engine_kinds.hpp"
#include "config/table.hpp"
#include "config/units.hpp"
#include "config/yaml.hpp"
#include "policy/engines.hpp"
#include "policy/fact_text.hpp"
#include "policy/tree.hpp"

namespace flyball::policy {
namespace {

using config::Entry;
using config::Findings;
using config::Node;
using config::Shape;

constexpr std::string_view kSchema = "flyball.policy/v1";
constexpr std::int64_t kMaxSiblings = 1000;
constexpr std::size_t kMaxRules = 1000;
constexpr std::int64_t kMaxProfiles = 32;
constexpr std::array<std::string_view, 8> kOps{"eq", "ne", "gt", "gte", "lt", "lte", "in", "exists"};
constexpr std::array<std::string_view, 3> kOnUnavailable{"next", "queue", "fail"};
constexpr std::array<std::string_view, 4> kPicks{"first", "fastest", "meets_slo", "considerate"};
constexpr std::array<std::string_view, 3> kOnSloMiss{"next", "fastest", "first"};
constexpr std::array<std::string_view, 2> kOnCold{"wait", "start_elsewhere"};

template <class E, std::size_t N>
E named(const std::array<std::string_view, N>& names, std::string_view name) {
  return static_cast<E>(std::ranges::find(names, name) - names.begin());
}

const Shape& condition_shape() {
  static const Shape shape = [] {
    const Shape self = config::reference("condition", &condition_shape);
    std::vector<config::Row> rows = {
        {"all", config::list(self, 1, kMaxSiblings), "true when every condition is; false when one is false"},
        {"any", config::list(self, 1, kMaxSiblings), "true when one condition is; false when all are false"},
        {"not", self, "true when the condition is false"},
        {"fact", config::text(1, 100), "the fact to compare; with exactly one operator beside it"},
        {"eq", config::scalar(), "equal to"},
        {"ne", config::scalar(), "not equal to"},
        {"gt", config::scalar(), "greater than"},
        {"gte", config::scalar(), "at least"},
        {"lt", config::scalar(), "less than"},
        {"lte", config::scalar(), "at most"},
        {"in", config::list(config::scalar(), 1, 100),
         "one of; for a list fact: one of its members is one of"},
        {"exists", config::boolean(), "true: the fact is known; false: it is not"},
    };
    return config::object(std::move(rows));
  }();
  return shape;
}

Shape because() {
  return config::text(1, 500);
}

// The table of policy.yaml, with the targets that a catalogue has.
class PolicyShapes {
 public:
  explicit PolicyShapes(const TargetCatalogue& targets)
      : target_(targets), rule_(make_rule()), policy_(make_policy(targets)) {}
  PolicyShapes(const PolicyShapes&) = delete;  // its shapes refer to each other
  PolicyShapes& operator=(const PolicyShapes&) = delete;

  const Shape& policy() const { return policy_; }

 private:
  static constexpr std::string_view kPickMeaning =
      "which available target is taken: the first (the default), the fastest, the first that meets the SLO, "
      "or the one whose work delays people's answers least";
  static config::Row on_cold() {
    return {"on_cold", config::choice({kOnCold.begin(), kOnCold.end()}),
            "when the chosen engine has not loaded the model: the request waits for it (the default), or its "
            "answer starts at a loaded target if it should end no later for that"};
  }
  static Shape pick() { return config::choice({kPicks.begin(), kPicks.end()}); }
  Shape targets() const { return config::list_or_single(target_.shape(), 1, 32); }

  Shape make_rule() const {
    return config::object({
        {"id", config::id(), "names the rule in receipts and metrics", true},
        {"because", because(), "why, in a sentence; shown in every receipt", true},
        {"source", config::text(0, 500), "the document it comes from"},
        {"when", config::reference("condition", &condition_shape),
         "the rule decides when this is true; without it, always"},
        {"engine", config::id(), "the system of the engine catalogue that the source would take"},
        {"use", targets(), "targets in order of preference, `engine` or `engine:profile`"},
        {"on_unavailable", config::choice({kOnUnavailable.begin(), kOnUnavailable.end()}),
         "when no target can be used: the next rule (the default), wait, or refuse"},
        {"pick", pick(), kPickMeaning},
        {"on_slo_miss", config::choice({kOnSloMiss.begin(), kOnSloMiss.end()}),
         "with pick: meets_slo, when no available target meets it: the next rule (the default), the fastest, "
         "or "
         "the first"},
        on_cold(),
        {"rules", config::list(rule(), 1, kMaxSiblings),
         "instead of use: asked in order when this rule is true; none decides: on to the next rule"},
    });
  }

  Shape make_policy(const TargetCatalogue& targets_known) const {
    std::vector<std::string_view> deniable(targets_known.names().begin(), targets_known.names().end());
    deniable.emplace_back(kRemote);
    const auto n_deniable = static_cast<std::int64_t>(deniable.size());
    const Shape constraint = config::object({
        {"because", because(), "why, in a sentence; shown when it denies", true},
        {"when", config::reference("condition", &condition_shape), "denies when this is true or unknown",
         true},
        {"deny", config::list_or_single(config::choice(deniable), 1, n_deniable),
         "engines; remote: every upstream", true},
    });
    const Shape fallback = config::object({
        {"because", because(), "why, in a sentence", true},
        {"source", config::text(0, 500), "the document it comes from"},
        {"engine", config::id(), "the system of the engine catalogue that the source would take"},
        {"use", targets(), "targets in order of preference", true},
        {"on_unavailable", config::choice({"queue", "fail"}),
         "when no target can be used: wait, or refuse (the default)"},
        {"pick", pick(), kPickMeaning},
        {"on_slo_miss", config::choice({"fastest", "first"}),
         "with pick: meets_slo, when no available target meets it: the fastest (the default), or the first"},
        on_cold(),
    });
    return config::object({
        {"schema", config::choice({kSchema}),
         "which version of this language it is written in; the first line", true},
        {"constraints", config::map(constraint, 0, kMaxSiblings), "what no rule can override, by id"},
        {"profiles", config::map(profile_shape(), 1, kMaxProfiles),
         "what `engine:profile` asks of the engine for a request, by the profile's id"},
        {"rules", config::list(rule(), 0, kMaxSiblings), "asked in order; the first that is true decides"},
        {"default", fallback, "decides when no rule does", true},
    });
  }

  Shape rule() const {
    return config::reference("rule", [this]() -> const Shape& { return rule_; });
  }

  TargetForm target_;
  Shape rule_, policy_;
};

// The engines of their own that a policy's rules name: those of `profiles` with `engine: own`, on engine
// kinds of this machine. The file need not be checked yet.
class OwnEngineFinder {
 public:
  explicit OwnEngineFinder(const Node& root) {
    const Node* const profiles = root.find("profiles");
    if (profiles == nullptr) return;
    for (const Entry& entry : profiles->entries)
      if (const Node* engine = entry.value.find("engine"); engine != nullptr && engine->text == "own")
        own_.insert(entry.key);
    if (own_.empty()) return;
    if (const Node* const rules = root.find("rules")) look_at(*rules);
    if (const Node* const fallback = root.find("default")) look_at_rule(*fallback);
  }
  std::vector<TargetCatalogue::OwnEngine> engines() && { return std::move(found_); }

 private:
  void look_at(const Node& rules) {
    for (const Node& rule : rules.items) look_at_rule(rule);
  }
  void look_at_rule(const Node& rule) {
    if (const Node* const use = rule.find("use")) {
      add(*use);
      for (const Node& item : use->items) add(item);
    }
    if (const Node* const rules = rule.find("rules")) look_at(*rules);
  }
  void add(const Node& target) {
    const std::size_t colon = target.text.find(':');
    if (colon == std::string::npos || found_.size() == kMost) return;
    TargetCatalogue::OwnEngine one{target.text.substr(0, colon), target.text.substr(colon + 1)};
    if (config::find_engine_kind(one.kind) == nullptr || !own_.contains(one.profile)) return;
    if (std::ranges::none_of(found_, [&](const auto& other) { return other.id() == one.id(); }))
      found_.push_back(std::move(one));
  }

  // No policy without a finding names more.
  static constexpr std::size_t kMost = kMaxProfiles * config::kEngineKinds.size();

  std::set<std::string, std::less<>> own_;  // profiles
  std::vector<TargetCatalogue::OwnEngine> found_;
};

// Precondition: check_shape found nothing wrong with the root.
void read_own_settings(const Node& root, std::vector<TargetCatalogue::OwnEngine>& engines) {
  if (engines.empty()) return;
  Findings findings;  // are found again by whoever reads the profiles for good
  for (const Entry& entry : root.find("profiles")->entries) {
    const Profile profile = read_profile(entry, findings);
    for (TargetCatalogue::OwnEngine& engine : engines)
      if (engine.profile == profile.id && profile.own_engine) engine.settings = *profile.own_engine;
  }
}

// From checked nodes to the typed tree; what only the catalogue can tell is found on the way.
class Reader {
 public:
  Reader(const Targets& targets, Findings& findings) : targets_(targets), findings_(findings) {
    for (const FactInfo& fact : targets->facts()) fact_names_.push_back(fact.name);
  }

  Tree tree(const Node& root, std::string_view file) {
    Tree out;
    out.file = file;
    out.targets = targets_;
    if (const Node* constraints = root.find("constraints"))
      for (const Entry& entry : constraints->entries) out.constraints.push_back(constraint(entry));
    if (const Node* profiles = root.find("profiles"))
      for (const Entry& entry : profiles->entries) out.profiles.push_back(read_profile(entry, findings_));
    defined_ = out.profiles;
    profiles_ = profile_names(defined_);
    if (const Node* rules = root.find("rules"))
      for (const Node& node : rules->items) out.rules.push_back(rule(node));
    const Node& fallback = *root.find("default");
    out.fallback.id = "default";
    out.fallback.on_unavailable = OnUnavailable::fail;
    out.fallback.on_slo_miss = OnSloMiss::fastest;  // nothing stands behind it
    fill(out.fallback, fallback);
    for (const Constraint& one : out.constraints) out.size.comparisons += comparisons_in(one.when);
    for (const Rule& one : out.rules) measure(one, out.size);
    out.size.targets += static_cast<std::uint32_t>(out.fallback.use.size());
    if (different_.size() > kMaxTargets)
      add(root.at, std::to_string(different_.size()) +
                       " different targets are named, each profile and each upstream of a kind " +
                       "counted, the limit is " + std::to_string(kMaxTargets));
    return out;
  }

 private:
  void add(const config::Mark& at, std::string message) {
    findings_.push_back(config::finding(at, std::move(message)));
  }

  static std::uint32_t comparisons_in(const Condition& condition) {
    std::uint32_t n = condition.kind == Condition::Kind::compare;
    for (const Condition& child : condition.children) n += comparisons_in(child);
    return n;
  }
  static void measure(const Rule& rule, TreeSize& size) {
    ++size.rules;
    size.comparisons += comparisons_in(rule.when);
    size.targets += static_cast<std::uint32_t>(rule.use.size());
    for (const Rule& child : rule.rules) measure(child, size);
  }

  Constraint constraint(const Entry& entry) {
    Constraint out;
    out.id = entry.key;
    out.because = entry.value.find("because")->text;
    out.when = condition(*entry.value.find("when"));
    out.deny = config::as_texts(*entry.value.find("deny"));
    for (const std::string& name : out.deny)
      for (const TargetInstance* instance : targets_->denied_by(name)) out.denied.push_back(instance->id);
    out.line = entry.at.line;
    out.column = entry.at.column;
    return out;
  }

  Rule rule(const Node& node) {
    Rule out;
    if (++n_rules_ == kMaxRules + 1) add(node.at, "more than " + std::to_string(kMaxRules) + " rules");
    out.id = node.find("id")->text;
    if (out.id == "default") add(node.find("id")->at, "rule id \"default\" is taken by the policy's default");
    fill(out, node);
    if (const Node* when = node.find("when")) out.when = condition(*when);
    const bool has_use = node.find("use") != nullptr;
    const Node* rules = node.find("rules");
    const bool advice = !out.engine.empty() && !has_use && !rules;
    if (has_use == (rules != nullptr) && !advice)
      add(node.at, "rule \"" + out.id + "\": expected exactly one of `use` and `rules`, or `engine` alone");
    if (const Node* engine = node.find("engine"); engine && rules)
      add(engine->at, "rule \"" + out.id + "\": engine belongs to a rule with `use`, or stands alone");
    if (const Node* what = node.find("on_unavailable"); what && !has_use)
      add(what->at, "rule \"" + out.id + "\": on_unavailable belongs to a rule with `use`");
    if (const Node* pick = node.find("pick"); pick && !has_use)
      add(pick->at, "rule \"" + out.id + "\": pick belongs to a rule with `use`");
    if (const Node* what = node.find("on_cold"); what && !has_use)
      add(what->at, "rule \"" + out.id + "\": on_cold belongs to a rule with `use`");
    if (rules)
      for (const Node& child : rules->items) out.rules.push_back(rule(child));
    return out;
  }

  // What rules and the default share.
  void fill(Rule& out, const Node& node) {
    out.line = node.at.line;
    out.column = node.at.column;
    out.because = node.find("because")->text;
    if (const Node* source = node.find("source")) out.source = source->text;
    if (const Node* engine = node.find("engine")) out.engine = checked_engine(*engine);
    if (const Node* use = node.find("use"))
      out.use = read_targets(*use, *targets_, profiles_, &shipped_engines(), findings_);
    for (const Target& target : out.use) different_.insert(to_string(target));
    if (const Node* use = node.find("use")) check_own_engines(*use);
    if (const Node* what = node.find("on_unavailable"))
      out.on_unavailable = named<OnUnavailable>(kOnUnavailable, what->text);
    if (const Node* what = node.find("on_cold")) out.on_cold = named<OnCold>(kOnCold, what->text);
    if (const Node* pick = node.find("pick")) out.pick = named<Pick>(kPicks, pick->text);
    if (const Node* what = node.find("on_slo_miss")) {
      out.on_slo_miss = named<OnSloMiss>(kOnSloMiss, what->text);
      if (out.pick != Pick::meets_slo)
        add(what->at, "on_slo_miss without `pick: meets_slo`: only that pick can miss the SLO");
    }
  }

  // Upstreams run their own engines: none of theirs is started for a profile.
  void check_own_engines(const Node& use) {
    const auto check = [&](const Node& item) {
      const std::size_t colon = item.text.find(':');
      if (colon == std::string::npos || targets_->find(item.text) != nullptr) return;
      const std::string name = item.text.substr(0, colon), profile = item.text.substr(colon + 1);
      const auto own = std::ranges::find(defined_, profile, &Profile::id);
      if (own == defined_.end() || !own->own_engine || !targets_->knows(name)) return;
      add(item.at, "target \"" + item.text + "\": the profile has `engine: own`, and " + name +
                       " is a remote server, on which flyball starts no engine: name cpu, vulkan or opencl, "
                       "or a profile that shares its engine");
    };
    if (use.kind != Node::Kind::list)
      check(use);
    else
      for (const Node& item : use.items) check(item);
  }

  std::string checked_engine(const Node& node) {
    const EngineCatalogue& catalogue = shipped_engines();
    const EngineEntry* system = catalogue.find(node.text);
    if (!system)
      add(node.at, "the engine catalogue has no \"" + node.text + "\"" +
                       config::did_you_mean(node.text, catalogue.ids()));
    else if (!system->denied.empty())
      add(node.at, "engine \"" + node.text + "\": denied: " + system->denied);
    return node.text;
  }

  Condition condition(const Node& node) {
    Condition out;
    out.line = node.at.line;
    out.column = node.at.column;
    const Entry* form = nullptr;
    for (const Entry& entry : node.entries) {
      if (entry.key != "all" && entry.key != "any" && entry.key != "not" && entry.key != "fact") continue;
      if (form) {
        add(entry.at,
            "`" + entry.key + "` beside `" + form->key + "`: a condition is one of all, any, not and fact");
        return out;
      }
      form = &entry;
    }
    if (!form) {
      add(node.at, "a condition needs one of all, any, not and fact");
      return out;
    }
    if (form->key == "fact") return comparison(node, *form);
    if (node.entries.size() > 1) {
      const Entry& stray = node.entries[&node.entries[0] == form ? 1 : 0];
      add(stray.at, "`" + stray.key + "` belongs beside `fact`, not beside `" + form->key + "`");
      return out;
    }
    if (form->key == "not") {
      out.kind = Condition::Kind::negation;
      out.children.push_back(condition(form->value));
    } else {
      out.kind = form->key == "all" ? Condition::Kind::all : Condition::Kind::any;
      for (const Node& item : form->value.items) out.children.push_back(condition(item));
    }
    return out;
  }

  Condition comparison(const Node& node, const Entry& fact) {
    Condition out;
    out.kind = Condition::Kind::compare;
    out.line = fact.at.line;
    out.column = fact.at.column;
    const auto id = targets_->find_fact(fact.value.text);
    if (!id) {
      add(fact.value.at,
          "unknown fact \"" + fact.value.text + "\"" + config::did_you_mean(fact.value.text, fact_names_));
      return out;
    }
    out.fact = *id;
    const Entry* op = nullptr;
    for (const Entry& entry : node.entries) {
      if (entry.key == "fact") continue;
      if (op) {
        add(entry.at, "`" + entry.key + "` beside `" + op->key + "`: one operator a comparison");
        return out;
      }
      op = &entry;
    }
    if (!op) {
      add(fact.at,
          "the fact \"" + fact.value.text + "\" needs an operator: eq, ne, gt, gte, lt, lte, in or exists");
      return out;
    }
    out.op = static_cast<Op>(std::ranges::find(kOps, op->key) - kOps.begin());
    operand(out, targets_->facts()[*id], *op);
    return out;
  }

  void operand(Condition& out, const FactInfo& fact, const Entry& op) {
    const auto mismatch = [&](const config::Mark& at, std::string_view expected, const std::string& got) {
      add(at, std::string(fact.name) + " is " + article(fact.type) + ": expected " + std::string(expected) +
                  ", got \"" + got + "\"");
    };
    if (out.op == Op::exists) {
      out.operand = config::as_bool(op.value);
      return;
    }
    const bool ordered = fact.type == FactType::integer || fact.type == FactType::number;
    const bool textual = fact.type == FactType::text || fact.type == FactType::text_list;
    const bool allowed = out.op == Op::in                         ? textual
                         : (out.op == Op::eq || out.op == Op::ne) ? fact.type != FactType::text_list
                                                                  : ordered;
    if (!allowed) {
      add(op.at, "`" + op.key + "` cannot be asked of " + std::string(fact.name) + ", which is " +
                     article(fact.type));
      return;
    }
    if (out.op == Op::in) {
      std::vector<std::string> values;
      for (const Node& item : op.value.items) {
        check_value(fact, item);
        values.push_back(item.text);
      }
      out.operand = std::move(values);
      return;
    }
    const Node& node = op.value;
    const std::string& s = node.text;
    switch (fact.type) {
      case FactType::boolean:
        if (node.quoted || (s != "true" && s != "false")) return mismatch(node.at, wanted(fact), s);
        out.operand = s == "true";
        return;
      case FactType::integer: {
        const auto value = node.quoted ? std::nullopt : fact_integer(fact, s);
        if (!value) return mismatch(node.at, wanted(fact), s);
        out.operand = *value;
        return;
      }
      case FactType::number: {
        double value = 0;
        const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
        if (node.quoted || error != std::errc{} || end != s.data() + s.size() || !std::isfinite(value))
          return mismatch(node.at, wanted(fact), s);
        out.operand = value;
        return;
      }
      case FactType::text:
        check_value(fact, node);
        out.operand = s;
        return;
      case FactType::text_list:
        return;  // refused above
    }
  }

  static std::string article(FactType type) {
    return (type == FactType::integer ? "an " : "a ") + std::string(to_string(type));
  }

  // A text that the fact can never be is a slip of the pen.
  void check_value(const FactInfo& fact, const Node& node) {
    const auto values = allowed_values(fact);
    if (values.empty()) return;
    if (std::ranges::find(values, node.text) != values.end()) return;
    std::string expected(fact.values);
    std::ranges::replace(expected, '|', ' ');
    add(node.at, std::string(fact.name) + " is never \"" + node.text + "\"; it is one of: " + expected +
                     config::did_you_mean(node.text, values));
  }

  const Targets& targets_;
  Findings& findings_;
  std::vector<std::string_view> fact_names_;
  std::vector<Profile> defined_;            // as the file defines them
  std::vector<std::string_view> profiles_;  // that a target may name
  std::set<std::string> different_;         // targets
  std::size_t n_rules_ = 0;
};

}  // namespace

std::string_view to_string(Op op) noexcept {
  return kOps[static_cast<std::size_t>(op)];
}
std::string_view to_string(OnUnavailable what) noexcept {
  return kOnUnavailable[static_cast<std::size_t>(what)];
}
std::string_view to_string(Pick pick) noexcept {
  return kPicks[static_cast<std::size_t>(pick)];
}
std::string_view to_string(OnSloMiss what) noexcept {
  return kOnSloMiss[static_cast<std::size_t>(what)];
}
std::string_view to_string(OnCold what) noexcept {
  return kOnCold[static_cast<std::size_t>(what)];
}
bool denies(const Constraint& constraint, std::string_view backend) {
  return std::ranges::find(constraint.denied, backend) != constraint.denied.end();
}

std::expected<Tree, std::vector<Error>> parse_policy_all(std::string_view yaml, std::string_view file_name,
                                                         const Targets& upstreams) {
  Result<Node> root = config::parse_yaml(yaml, file_name);
  if (!root) return std::unexpected(Findings{std::move(root.error())});
  Findings findings;
  config::check_schema_line(*root, kSchema, findings);
  if (!findings.empty()) return std::unexpected(std::move(findings));
  auto own_engines = OwnEngineFinder(*root).engines();
  const Targets named = TargetCatalogue::with_own_engines(upstreams, own_engines);
  config::check_shape(*root, PolicyShapes(*named).policy(), "", findings);
  if (!findings.empty()) return std::unexpected(std::move(findings));
  read_own_settings(*root, own_engines);
  const Targets targets = TargetCatalogue::with_own_engines(upstreams, own_engines);
  Tree tree = Reader(targets, findings).tree(*root, file_name);
  tree.text = yaml;
  tree.digest = config::digest(yaml);
  if (findings.empty())
    for (LintFinding& f : lint(tree))
      if (f.level == LintFinding::Level::error)
        findings.push_back(Error{ErrorCode::config_invalid, std::move(f.message), {}, std::move(f.where)});
  if (!findings.empty()) return std::unexpected(std::move(findings));
  tree.program = compile(tree);
  return tree;
}

Result<Tree> parse_policy(std::string_view yaml, std::string_view file_name, const Targets& targets) {
  auto tree = parse_policy_all(yaml, file_name, targets);
  if (!tree) return std::unexpected(config::first_of(tree.error()));
  return std::move(*tree);
}

std::string policy_schema(const TargetCatalogue& targets) {
  return config::json_schema(PolicyShapes(targets).policy(), "Flyball policy.yaml");
}

}  // namespace flyball::policy
