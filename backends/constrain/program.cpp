#include "backends/constrain/program.hpp"

#include <algorithm>
#include <bitset>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "backends/constrain/nfa.hpp"
#include "backends/constrain/outline.hpp"

namespace flyball::constrain {
namespace {

using grammar::Grammar;
using grammar::Kind;
using grammar::Node;
using grammar::NodeId;

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

class Compiler {
 public:
  Compiler(const Grammar& grammar, grammar::Fuel& fuel, const grammar::Limits& limits,
           std::vector<NodeFacts> facts)
      : grammar_(grammar), fuel_(fuel), limits_(limits), facts_(std::move(facts)) {}

  Result<Program> run() {
    const NodeId body = grammar_.body(grammar::RuleId{0});
    program_.nullable = facts(body).nullable;
    procedure_for_rule(grammar::RuleId{0});
    for (ProcedureId i = 0; i < sources_.size(); ++i) {
      auto built = build(i);
      if (!built) return pass(built);
      program_.procedures[i].start = *built;
    }
    end_states(program_);
    if (auto right = refuse_left_recursion(); !right) return pass(right);
    if (auto trimmed = trim(); !trimmed) return pass(trimmed);
    find_classes();
    return std::move(program_);
  }

 private:
  struct Source {
    NodeId body{};
    std::string name;  // of the rule that it is, or is part of
  };
  struct Task {  // the words of a node lead from a place to another
    NodeId node{};
    Nfa::Place from = 0, to = 0;
  };

  const NodeFacts& facts(NodeId id) const { return facts_[static_cast<std::size_t>(id)]; }

  ProcedureId procedure_for_rule(grammar::RuleId rule) {
    const auto next = static_cast<ProcedureId>(sources_.size());
    const auto [at, is_new] = rules_.try_emplace(rule, next);
    if (is_new) {
      sources_.push_back({grammar_.body(rule), grammar_.name(rule)});
      program_.procedures.push_back({});
    }
    return at->second;
  }

  ProcedureId procedure_for_repeat(NodeId id, const std::string& rule) {
    const auto next = static_cast<ProcedureId>(sources_.size());
    const auto [at, is_new] = repeats_.try_emplace(id, next);
    if (is_new) {
      const Node& node = grammar_.node(id);
      const NodeId child = grammar_.children(node)[0];
      sources_.push_back({child, rule});
      program_.procedures.push_back(
          {.counted = true, .least = least_words(node, facts(child)), .most = node.most});
    }
    return at->second;
  }

  Result<StateId> build(ProcedureId which) {
    Nfa nfa;
    const Nfa::Place begin = nfa.add_place(), end = nfa.add_place();
    tasks_.assign({Task{sources_[which].body, begin, end}});
    while (!tasks_.empty()) {
      const Task task = tasks_.back();
      tasks_.pop_back();
      if (!fuel_.spend()) return out_of_fuel();
      if (nfa.memory() + tasks_.size() * sizeof(Task) > limits_.memory) {
        return fail(ErrorCode::unsupported_feature, "the automaton of the rule \"" + sources_[which].name +
                                                        "\" takes more than " +
                                                        std::to_string(limits_.memory) + " bytes");
      }
      add(nfa, task, which);
    }
    return determinize(nfa, begin, end, program_, fuel_, limits_.memory);
  }

  // Adds paths from `from` to `to` and none that enters `from` or leaves `to`.
  void add(Nfa& nfa, const Task& task, ProcedureId within) {
    const Node& node = grammar_.node(task.node);
    const auto children = grammar_.children(node);
    fuel_.spend(node.count);
    switch (node.kind) {
      case Kind::text:
        return add_text(nfa, task, grammar_.text_of(node));
      case Kind::bytes:
        return add_bytes(nfa, task, grammar_.set_of(node));
      case Kind::dfa:
        return add_dfa(nfa, task, grammar_.dfa_of(node));
      case Kind::rule: {
        const grammar::RuleId rule = grammar_.rule_of(node);
        if (!facts(task.node).called) return tasks_.push_back({grammar_.body(rule), task.from, task.to});
        return add_call(nfa, task, procedure_for_rule(rule));
      }
      case Kind::sequence: {
        Nfa::Place from = task.from;
        for (std::size_t i = 0; i + 1 < children.size(); ++i) {
          const Nfa::Place to = nfa.add_place();
          tasks_.push_back({children[i], from, to});
          from = to;
        }
        if (children.empty()) return nfa.empty(from, task.to);
        return tasks_.push_back({children.back(), from, task.to});
      }
      case Kind::choice:
        for (const NodeId child : children) tasks_.push_back({child, task.from, task.to});
        return;
      case Kind::repeat:
        if (!facts(task.node).called) return add_copies(nfa, task, node);
        return add_call(nfa, task, procedure_for_repeat(task.node, std::string(sources_[within].name)));
    }
  }

  void add_call(Nfa& nfa, const Task& task, ProcedureId procedure) {
    nfa.call(task.from, procedure, task.to);
    if (facts(task.node).nullable) nfa.empty(task.from, task.to);
  }

  void add_text(Nfa& nfa, const Task& task, std::string_view text) {
    if (text.empty()) return nfa.empty(task.from, task.to);
    fuel_.spend(text.size());
    Nfa::Place from = task.from;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<std::uint8_t>(text[i]);
      const Nfa::Place to = i + 1 < text.size() ? nfa.add_place() : task.to;
      nfa.bytes(from, byte, byte, to);
      from = to;
    }
  }

  void add_bytes(Nfa& nfa, const Task& task, const grammar::ByteSet& set) {
    fuel_.spend(8);
    for (std::size_t first = 0; first < 256; ++first) {
      if (!set[first]) continue;
      std::size_t last = first;
      while (last < 255 && set[last + 1]) ++last;
      nfa.bytes(task.from, static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last), task.to);
      first = last;
    }
  }

  void add_dfa(Nfa& nfa, const Task& task, const grammar::Dfa& dfa) {
    fuel_.spend(dfa.states.size() + dfa.edges.size());
    const auto first = static_cast<Nfa::Place>(nfa.places());
    for (std::size_t i = 0; i < dfa.states.size(); ++i) nfa.add_place();
    nfa.empty(task.from, first);
    for (Nfa::Place i = 0; i < dfa.states.size(); ++i) {
      const grammar::Dfa::State& state = dfa.states[i];
      if (state.accepting) nfa.empty(first + i, task.to);
      for (std::uint32_t e = state.first; e < state.first + state.count; ++e) {
        nfa.bytes(first + i, dfa.edges[e].from, dfa.edges[e].to, first + dfa.edges[e].next);
      }
    }
  }

  // A repeat written out.
  void add_copies(Nfa& nfa, const Task& task, const Node& node) {
    const NodeId child = grammar_.children(node)[0];
    const std::uint32_t least = least_words(node, facts(child));
    Nfa::Place from = task.from;
    const auto add_copy = [&](Nfa::Place to) {
      tasks_.push_back({child, from, to});
      from = to;
    };
    for (std::uint32_t i = 0; i < least; ++i) add_copy(nfa.add_place());
    if (node.most == grammar::kUnbounded) {
      const Nfa::Place loop = nfa.add_place();
      nfa.empty(from, loop);
      tasks_.push_back({child, loop, loop});
      from = loop;
    } else {
      for (std::uint32_t i = least; i < node.most; ++i) {
        nfa.empty(from, task.to);
        add_copy(nfa.add_place());
      }
    }
    nfa.empty(from, task.to);
  }

  static void end_states(Program& program) {
    program.states.push_back(
        {static_cast<std::uint32_t>(program.edges.size()), static_cast<std::uint32_t>(program.calls.size())});
  }

  // A depth-first walk over the calls that are made before any byte is read.
  Result<void> refuse_left_recursion() {
    enum class Colour : std::uint8_t { unseen, open, done };
    struct Visit {
      ProcedureId procedure = 0;
      std::size_t next = 0;
    };
    std::vector<Colour> colours(sources_.size(), Colour::unseen);
    std::vector<Visit> path;
    for (ProcedureId root = 0; root < sources_.size(); ++root) {
      if (colours[root] != Colour::unseen) continue;
      colours[root] = Colour::open;
      path.push_back({root});
      while (!path.empty()) {
        if (!fuel_.spend()) return out_of_fuel();
        const ProcedureId procedure = path.back().procedure;
        const auto calls = program_.calls_of(program_.procedures[procedure].start);
        if (path.back().next == calls.size()) {
          colours[procedure] = Colour::done;
          path.pop_back();
          continue;
        }
        const ProcedureId callee = calls[path.back().next++].procedure;
        if (colours[callee] == Colour::open) {
          const auto from = std::ranges::find(path, callee, &Visit::procedure);
          std::vector<std::string> names;
          for (auto visit = from; visit != path.end(); ++visit)
            names.push_back(sources_[visit->procedure].name);
          return left_recursion(std::move(names));
        }
        if (colours[callee] == Colour::unseen) {
          colours[callee] = Colour::open;
          path.push_back({callee});
        }
      }
    }
    return {};
  }

  static std::unexpected<Error> left_recursion(std::vector<std::string> names) {
    constexpr std::size_t kNamed = 8;  // a longer cycle is cut: the message is for a person
    names.erase(std::ranges::unique(names).begin(), names.end());
    std::string cycle;
    for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i) cycle += names[i] + " -> ";
    if (names.size() > kNamed) cycle += "... -> ";
    return fail(ErrorCode::invalid_value,
                "the rule \"" + names[0] +
                    "\" can call itself before it has read a byte (left recursion): " + cycle + names[0]);
  }

  // Removes all that leads to no word, and numbers the remaining states anew.
  Result<void> trim() {
    const std::size_t n = program_.states.size() - 1;
    std::vector<bool> lives(n, false);
    const auto procedure_lives = [&](ProcedureId id) { return lives[program_.procedures[id].start]; };
    const auto call_lives = [&](const Program::Call& c) {
      return lives[c.next] && procedure_lives(c.procedure);
    };
    const auto edge_lives = [&](const Program::Edge& e) { return lives[e.next]; };
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = n; i-- > 0;) {  // successors have larger numbers as a rule
        if (!fuel_.spend()) return out_of_fuel();
        const auto id = static_cast<StateId>(i);
        if (lives[i]) continue;
        if (program_.states[i].accepting || std::ranges::any_of(program_.edges_of(id), edge_lives) ||
            std::ranges::any_of(program_.calls_of(id), call_lives)) {
          lives[i] = changed = true;
        }
      }
    }
    if (!procedure_lives(0) && !program_.nullable) {
      return fail(ErrorCode::invalid_value, "the grammar has no word: no text can satisfy it");
    }
    std::vector<bool> kept = lives;
    for (const auto& procedure : program_.procedures) kept[procedure.start] = true;
    std::vector<StateId> number(n, kNone);
    StateId next = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (kept[i]) number[i] = next++;
    }
    Program out;
    out.nullable = program_.nullable;
    out.procedures = program_.procedures;
    for (auto& procedure : out.procedures) procedure.start = number[procedure.start];
    for (StateId i = 0; i < n; ++i) {
      if (!kept[i]) continue;
      Program::State state = program_.states[i];
      const auto edges = out.edges.size(), calls = out.calls.size();
      for (const auto& edge : program_.edges_of(i)) {
        if (edge_lives(edge)) out.edges.push_back({edge.from, edge.to, number[edge.next]});
      }
      for (const auto& call : program_.calls_of(i)) {
        if (call_lives(call)) out.calls.push_back({call.procedure, number[call.next]});
      }
      state.edges = static_cast<std::uint32_t>(edges);
      state.calls = static_cast<std::uint32_t>(calls);
      state.tail = state.accepting && edges == out.edges.size() && calls == out.calls.size();
      out.states.push_back(state);
    }
    end_states(out);
    program_ = std::move(out);
    return {};
  }

  void find_classes() {
    std::bitset<257> begins;
    begins.set(0);
    for (const auto& edge : program_.edges) {
      begins.set(edge.from);
      begins.set(edge.to + 1U);
    }
    std::uint8_t now = 0;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if (byte > 0 && begins[byte]) ++now;
      program_.class_of[byte] = now;
    }
    program_.classes = now + 1U;
  }

  const Grammar& grammar_;
  grammar::Fuel& fuel_;
  const grammar::Limits& limits_;
  std::vector<NodeFacts> facts_;
  Program program_;
  std::vector<Source> sources_;  // by procedure
  std::map<grammar::RuleId, ProcedureId> rules_;
  std::map<NodeId, ProcedureId> repeats_;
  std::vector<Task> tasks_;
};

}  // namespace

std::size_t Program::memory() const noexcept {
  return sizeof(Program) + states.size() * sizeof(State) + edges.size() * sizeof(Edge) +
         calls.size() * sizeof(Call) + procedures.size() * sizeof(Procedure);
}

Result<Program> compile(const Grammar& grammar, grammar::Fuel& fuel, const grammar::Limits& limits) {
  const std::uint64_t steps = fuel.left();
  auto facts = outline(grammar, fuel);
  auto program =
      facts ? Compiler(grammar, fuel, limits, std::move(*facts)).run() : Result<Program>(pass(facts));
  if (!program && fuel.is_empty()) {
    return fail(ErrorCode::unsupported_feature, "the grammar takes more than " + std::to_string(steps) +
                                                    " steps to compile; make it smaller or less ambiguous");
  }
  return program;
}

}  // namespace flyball::constrain
