#include "policy/graph.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace flyball::policy {
namespace {

constexpr std::array<std::string_view, 8> kSigns{"=", "!=", ">", ">=", "<", "<=", "in", "exists"};
constexpr std::string_view kDecisions = "flyball_policy_decisions_total{";
constexpr std::size_t kMaxShownCondition = 120;  // characters of a line in the picture

std::string value_text(const FactValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    std::string out;
    for (const std::string& member : *list) out += (out.empty() ? "" : ", ") + member;
    return "[" + out + "]";
  }
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), std::get<double>(value)).ptr;
  return {digits.data(), end};
}

std::string condition_text(const Condition& condition, const TargetCatalogue& targets, bool inside) {
  switch (condition.kind) {
    case Condition::Kind::always:
      return "always";
    case Condition::Kind::negation:
      return "not " + condition_text(condition.children.front(), targets, true);
    case Condition::Kind::compare: {
      const std::string fact(targets.facts()[condition.fact].name);
      if (condition.op == Op::exists)
        return fact + (std::get<bool>(condition.operand) ? " is known" : " is unknown");
      return fact + " " + std::string(kSigns[static_cast<std::size_t>(condition.op)]) + " " +
             value_text(condition.operand);
    }
    case Condition::Kind::all:
    case Condition::Kind::any: {
      std::string out;
      for (const Condition& child : condition.children)
        out += (out.empty()                              ? ""
                : condition.kind == Condition::Kind::all ? " and "
                                                         : " or ") +
               condition_text(child, targets, true);
      return inside && condition.children.size() > 1 ? "(" + out + ")" : out;
    }
  }
  return {};
}

// At most so many characters, none cut in half.
std::string shortened(std::string text) {
  if (text.size() <= kMaxShownCondition) return text;
  std::size_t n = kMaxShownCondition - 3;
  while (n > 0 && (static_cast<unsigned char>(text[n]) & 0xC0U) == 0x80U) --n;
  return text.substr(0, n) + "...";
}

// "pick meets_slo, else fastest"; "" where the first target is taken.
std::string pick_text(const Rule& rule) {
  if (rule.pick == Pick::first) return "";
  return "pick " + std::string(to_string(rule.pick)) +
         (rule.pick == Pick::meets_slo ? ", else " + std::string(to_string(rule.on_slo_miss)) : "");
}

std::string targets_text(const Rule& rule) {
  std::string out;
  for (const Target& target : rule.use) out += (out.empty() ? "" : ", ") + to_string(target);
  if (rule.on_unavailable != OnUnavailable::next)
    out += ", else " + std::string(to_string(rule.on_unavailable));
  if (const std::string pick = pick_text(rule); !pick.empty()) out += " (" + pick + ")";
  if (rule.on_cold == OnCold::start_elsewhere) out += ", cold: start elsewhere";
  return out;
}

// What the target's profile asks of the engine; "" where that is nothing.
std::string profile_text(const Tree& tree, const Target& target) {
  const Profile* const profile = profile_of(tree, target);
  const bool sets = profile != nullptr && (profile->own_engine || settings_of(tree, target) != nullptr);
  return sets ? to_text(*profile) : "";
}

std::string count_text(const Rule& rule, const RuleCounts& counts) {
  const auto it = counts.find(rule.id);
  return it == counts.end() ? "" : std::to_string(it->second);
}

// ---- DOT --------------------------------------------------------------------------------------------------

std::string dot_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + "\"";
}

class Dot {
 public:
  Dot(const Tree& tree, const RuleCounts& counts) : tree_(tree), counts_(counts) {}

  std::string run() {
    out_ = "digraph policy {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n  start [label=" +
           dot_text(tree_.file) + ", shape=plaintext];\n";
    std::string before = "start";
    siblings(tree_.rules, before, "");
    rule(tree_.fallback);
    edge(before, name(tree_.fallback), "otherwise");
    return out_ + "}\n";
  }

 private:
  static std::string name(const Rule& rule) { return dot_text("rule " + rule.id); }
  void edge(const std::string& from, const std::string& to, const std::string& label) {
    out_ += "  " + from + " -> " + to + (label.empty() ? "" : " [label=" + dot_text(label) + "]") + ";\n";
  }

  void siblings(const std::vector<Rule>& rules, std::string& before, std::string label) {
    for (const Rule& one : rules) {
      rule(one);
      edge(before, name(one), label);
      before = name(one);
      label = "otherwise";
      std::string inside = name(one);
      siblings(one.rules, inside, "true");
    }
  }

  void rule(const Rule& one) {
    const std::string count = count_text(one, counts_);
    out_ += "  " + name(one) + " [label=" +
            dot_text(one.id + "\n" + shortened(to_text(one.when, *tree_.targets)) +
                     (one.engine.empty() ? "" : "\nengine " + one.engine) +
                     (one.pick == Pick::first ? "" : "\n" + pick_text(one)) +
                     (count.empty() ? "" : "\ndecided " + count)) +
            ", tooltip=" + dot_text(one.because) + "];\n";
    std::size_t order = 0;
    for (const Target& target : one.use) {
      const std::string node = dot_text("target " + to_string(target));
      const std::string profile = profile_text(tree_, target);
      out_ += "  " + node +
              " [label=" + dot_text(to_string(target) + (profile.empty() ? "" : "\n" + profile)) +
              ", shape=ellipse];\n";
      edge(name(one), node, std::to_string(++order));
    }
  }

  const Tree& tree_;
  const RuleCounts& counts_;
  std::string out_;
};

// ---- SVG: one row a rule, children indented below it ------------------------------------------------------

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  return out;
}

class Svg {
 public:
  Svg(const Tree& tree, const RuleCounts& counts) : tree_(tree), counts_(counts) {}

  std::string run() {
    rows(tree_.rules, 0);
    row(tree_.fallback, 0);
    for (const Profile& profile : tree_.profiles) row(profile);
    const std::string height = std::to_string(kTop + n_ * kRow + kTop);
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + std::to_string(kWidth) + "\" height=\"" +
           height +
           "\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" "
           "fill=\"white\"/>\n"
           "<text x=\"12\" y=\"22\" font-weight=\"bold\">" +
           escaped(tree_.file) + "</text>\n" + out_ + "</svg>\n";
  }

 private:
  static constexpr std::size_t kWidth = 1240, kTop = 36, kRow = 40, kIndent = 28, kTargetsAt = 880,
                               kCountAt = 1220;

  void rows(const std::vector<Rule>& rules, std::size_t depth) {
    for (const Rule& rule : rules) {
      row(rule, depth);
      rows(rule.rules, depth + 1);
    }
  }

  void text(std::size_t x, std::size_t y, const std::string& style, const std::string& what) {
    if (!what.empty())
      out_ += "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\" " + style + ">" +
              escaped(what) + "</text>\n";
  }

  void row(const Profile& profile) {
    const std::size_t y = kTop + n_++ * kRow, x = 12;
    out_ += "<g><title>" + escaped(profile.because) + "</title>\n";
    text(x, y + 15, "font-weight=\"bold\"", "profile " + profile.id);
    text(x, y + 31, "fill=\"#555555\"", to_text(profile));
    out_ += "</g>\n";
  }

  void row(const Rule& rule, std::size_t depth) {
    const std::size_t y = kTop + n_++ * kRow, x = 12 + depth * kIndent;
    out_ += "<g><title>" + escaped(rule.because + (rule.source.empty() ? "" : " (" + rule.source + ")")) +
            "</title>\n";
    // The stroke before a rule is where its answer is asked for: true goes right, not true goes down.
    out_ += "<path d=\"M" + std::to_string(x) + " " + std::to_string(y + 2) + " v" +
            std::to_string(kRow - 6) + "\" stroke=\"" + (rule.use.empty() ? "#999999" : "#2266aa") +
            "\" stroke-width=\"3\"/>\n";
    text(x + 8, y + 15, "font-weight=\"bold\"", rule.id);
    text(x + 8, y + 31, "fill=\"#555555\"", shortened(to_text(rule.when, *tree_.targets)));
    text(kTargetsAt, y + 15, "fill=\"#2266aa\"", targets_text(rule));
    text(kTargetsAt, y + 31, "fill=\"#aa6622\"", rule.engine.empty() ? "" : "engine " + rule.engine);
    text(kCountAt, y + 15, "text-anchor=\"end\"", count_text(rule, counts_));
    out_ += "</g>\n";
  }

  const Tree& tree_;
  const RuleCounts& counts_;
  std::string out_;
  std::size_t n_ = 0;
};

}  // namespace

std::string to_text(const Condition& condition, const TargetCatalogue& targets) {
  return condition_text(condition, targets, false);
}
std::string to_dot(const Tree& tree, const RuleCounts& counts) {
  return Dot(tree, counts).run();
}
std::string to_svg(const Tree& tree, const RuleCounts& counts) {
  return Svg(tree, counts).run();
}

RuleCounts counts_in_metrics(std::string_view exposition) {
  RuleCounts out;
  while (!exposition.empty()) {
    const std::size_t end = std::min(exposition.find('\n'), exposition.size());
    const std::string_view line = exposition.substr(0, end);
    exposition.remove_prefix(std::min(end + 1, exposition.size()));
    if (!line.starts_with(kDecisions)) continue;
    const std::size_t rule = line.find("rule=\""), close = line.rfind('}');
    if (rule == std::string_view::npos || close == std::string_view::npos || close + 2 > line.size())
      continue;
    const std::size_t begin = rule + 6, stop = line.find('"', begin);
    double value = 0;
    const std::string_view number = line.substr(close + 2);
    const auto [at, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (stop == std::string_view::npos || error != std::errc{} || !(value >= 0 && value < 1e18)) continue;
    out[std::string(line.substr(begin, stop - begin))] += static_cast<std::uint64_t>(value);
  }
  return out;
}

}  // namespace flyball::policy
