#include "backends/constrain/program.hpp"

#include <algorithm>
#include <bitset>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "backends/constrain/nfa.hpp"
#include "backends/constrain/outline.hpp"
#include "config/name_list.hpp"

namespace flyball::constrain {
namespace {

using grammar::Grammar;
using grammar::Kind;
using grammar::Node;
using grammar::NodeId;

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

class Compiler {
 public:
  // steps: of the fuel, for messages.
  Compiler(const Grammar& grammar, grammar::Fuel& fuel, std::uint64_t steps, const grammar::Limits& limits,
           std::vector<NodeFacts> facts)
      : grammar_(grammar), fuel_(fuel), steps_(steps), limits_(limits), facts_(std::move(facts)) {}

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
    grammar::RuleId rule{};  // that it is, or is part of
  };
  struct Task {  // the words of a node lead from a place to another
    NodeId node{};
    Nfa::Place from = 0, to = 0;
  };

  const NodeFacts& facts(NodeId id) const { return facts_[static_cast<std::size_t>(id)]; }

  std::string name_of(ProcedureId which) const { return config::quoted(grammar_.name(sources_[which].rule)); }

  std::unexpected<Error> out_of_fuel(ProcedureId which) const {
    return fail(ErrorCode::unsupported_feature, "the grammar takes more than " + std::to_string(steps_) +
                                                    " steps to compile; they were spent at the rule " +
                                                    name_of(which) + "; make it smaller or less ambiguous");
  }

  std::unexpected<Error> out_of_memory(ProcedureId which) const {
    return fail(ErrorCode::unsupported_feature, "the compiled grammar takes more than " +
                                                    std::to_string(limits_.memory) + " bytes at the rule " +
                                                    name_of(which));
  }

  ProcedureId procedure_for_rule(grammar::RuleId rule) {
    const auto next = static_cast<ProcedureId>(sources_.size());
    const auto [at, is_new] = rules_.try_emplace(rule, next);
    if (is_new) {
      sources_.push_back({grammar_.body(rule), rule});
      program_.procedures.push_back({});
    }
    return at->second;
  }

  ProcedureId procedure_for_repeat(NodeId id, grammar::RuleId rule) {
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
    const Node& body = grammar_.node(sources_[which].body);
    if (body.kind == Kind::dfa) return copy(grammar_.dfa_of(body), which);
    Nfa nfa;
    const Nfa::Place begin = nfa.add_place(), end = nfa.add_place();
    tasks_.assign({Task{sources_[which].body, begin, end}});
    while (!tasks_.empty()) {
      const Task task = tasks_.back();
      tasks_.pop_back();
      if (!fuel_.spend(3)) return out_of_fuel(which);
      if (nfa.memory() + tasks_.size() * sizeof(Task) > limits_.memory) return out_of_memory(which);
      add(nfa, task, which);
    }
    const auto start = determinize(nfa, begin, end, program_, fuel_, limits_.memory);
    if (!start) return start.error() == Exhausted::fuel ? out_of_fuel(which) : out_of_memory(which);
    return *start;
  }

  // An automaton is deterministic as it is. Nothing leads back to the first state, which does not accept.
  Result<StateId> copy(const grammar::Dfa& dfa, ProcedureId which) {
    if (!fuel_.spend(4 * (dfa.states.size() + dfa.edges.size()))) return out_of_fuel(which);
    const auto start = static_cast<StateId>(program_.states.size());
    const auto calls = static_cast<std::uint32_t>(program_.calls.size());
    const auto add_state = [&](const grammar::Dfa::State& state, bool accepting) {
      const auto edges = static_cast<std::uint32_t>(program_.edges.size());
      for (std::uint32_t e = state.first; e < state.first + state.count; ++e)
        program_.edges.push_back({dfa.edges[e].from, dfa.edges[e].to, start + 1 + dfa.edges[e].next});
      program_.states.push_back({edges, calls, accepting, accepting && state.count == 0});
    };
    add_state(dfa.states[0], false);
    for (const auto& state : dfa.states) add_state(state, state.accepting);
    if (program_.memory() > limits_.memory) return out_of_memory(which);
    return start;
  }

  // Adds paths from `from` to `to` and none that enters `from` or leaves `to`.
  void add(Nfa& nfa, const Task& task, ProcedureId within) {
    const Node& node = grammar_.node(task.node);
    const auto children = grammar_.children(node);
    if (!fuel_.spend(2 * node.count)) return;
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
        if (!facts(task.node).counted) return add_copies(nfa, task, node);
        return add_call(nfa, task, procedure_for_repeat(task.node, sources_[within].rule));
    }
  }

  void add_call(Nfa& nfa, const Task& task, ProcedureId procedure) {
    nfa.call(task.from, procedure, task.to);
    if (facts(task.node).nullable) nfa.empty(task.from, task.to);
  }

  void add_text(Nfa& nfa, const Task& task, std::string_view text) {
    if (text.empty()) return nfa.empty(task.from, task.to);
    if (!fuel_.spend(3 * text.size())) return;
    Nfa::Place from = task.from;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<std::uint8_t>(text[i]);
      const Nfa::Place to = i + 1 < text.size() ? nfa.add_place() : task.to;
      nfa.bytes(from, byte, byte, to);
      from = to;
    }
  }

  void add_bytes(Nfa& nfa, const Task& task, const grammar::ByteSet& set) {
    if (!fuel_.spend(20)) return;
    for (std::size_t first = 0; first < 256; ++first) {
      if (!set[first]) continue;
      std::size_t last = first;
      while (last < 255 && set[last + 1]) ++last;
      nfa.bytes(task.from, static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last), task.to);
      first = last;
    }
  }

  void add_dfa(Nfa& nfa, const Task& task, const grammar::Dfa& dfa) {
    if (!fuel_.spend(10 * (dfa.states.size() + dfa.edges.size()))) return;
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

  // A repeat written out: of few copies (outline.cpp).
  void add_copies(Nfa& nfa, const Task& task, const Node& node) {
    const NodeId child = grammar_.children(node)[0];
    const std::uint32_t least = least_words(node, facts(child));
    Nfa::Place from = task.from;
    const auto add_copy = [&](Nfa::Place to) {
      fuel_.spend(2);
      tasks_.push_back({child, from, to});
      from = to;
    };
    for (std::uint32_t i = 0; i < least && !fuel_.is_empty(); ++i) add_copy(nfa.add_place());
    if (node.most == grammar::kUnbounded) {
      const Nfa::Place loop = nfa.add_place();
      nfa.empty(from, loop);
      tasks_.push_back({child, loop, loop});
      from = loop;
    } else {
      for (std::uint32_t i = least; i < node.most && !fuel_.is_empty(); ++i) {
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
        const ProcedureId procedure = path.back().procedure;
        if (!fuel_.spend()) return out_of_fuel(procedure);
        const auto calls = program_.calls_of(program_.procedures[procedure].start);
        if (path.back().next == calls.size()) {
          colours[procedure] = Colour::done;
          path.pop_back();
          continue;
        }
        const ProcedureId callee = calls[path.back().next++].procedure;
        if (colours[callee] == Colour::open) {
          const auto from = std::ranges::find(path, callee, &Visit::procedure);
          std::vector<grammar::RuleId> rules;
          for (auto visit = from; visit != path.end(); ++visit)
            rules.push_back(sources_[visit->procedure].rule);
          return left_recursion(std::move(rules));
        }
        if (colours[callee] == Colour::unseen) {
          colours[callee] = Colour::open;
          path.push_back({callee});
        }
      }
    }
    return {};
  }

  std::unexpected<Error> left_recursion(std::vector<grammar::RuleId> rules) const {
    constexpr std::size_t kNamed = 4;  // a longer cycle is cut: the message is for a person
    rules.erase(std::ranges::unique(rules).begin(), rules.end());
    const auto name = [&](std::size_t i) { return config::quoted(grammar_.name(rules[i])); };
    std::string cycle;
    for (std::size_t i = 0; i < std::min(rules.size(), kNamed); ++i) cycle += name(i) + " -> ";
    if (rules.size() > kNamed) cycle += "... -> ";
    return fail(ErrorCode::invalid_value,
                "the rule " + name(0) +
                    " can call itself before it has read a byte (left recursion): " + cycle + name(0));
  }

  // The states from which an accepting one can be reached. A worklist over the reverse edges, where a call
  // leads on once its procedure and the state after it both live: linear in any order of the states.
  std::vector<bool> find_living() const {
    struct Reverse {
      StateId from = 0, also = 0;  // `from` lives if `also` does
    };
    const std::size_t n = program_.states.size() - 1;
    const auto each_edge = [&](StateId id, const auto& f) {
      for (const auto& edge : program_.edges_of(id)) f(edge.next, Reverse{id, edge.next});
      for (const auto& call : program_.calls_of(id)) {
        const StateId start = program_.procedures[call.procedure].start;
        f(call.next, Reverse{id, start});
        f(start, Reverse{id, call.next});
      }
    };
    std::vector<std::uint32_t> first(n + 1, 0);
    for (StateId id = 0; id < n; ++id) each_edge(id, [&](StateId to, Reverse) { ++first[to + 1]; });
    for (std::size_t id = 0; id < n; ++id) first[id + 1] += first[id];
    std::vector<Reverse> edges(first[n]);
    std::vector<std::uint32_t> filled(first.begin(), first.end() - 1);
    std::vector<bool> lives(n, false);
    std::vector<StateId> work;
    const auto enliven = [&](StateId id) {
      if (lives[id]) return;
      lives[id] = true;
      work.push_back(id);
    };
    for (StateId id = 0; id < n; ++id) {
      each_edge(id, [&](StateId to, Reverse edge) { edges[filled[to]++] = edge; });
      if (program_.states[id].accepting) enliven(id);
    }
    while (!work.empty()) {
      const StateId id = work.back();
      work.pop_back();
      for (std::uint32_t i = first[id]; i < first[id + 1]; ++i) {
        if (lives[edges[i].also]) enliven(edges[i].from);
      }
    }
    return lives;
  }

  // Removes all that leads to no word, and numbers the remaining states anew.
  Result<void> trim() {
    const std::size_t n = program_.states.size() - 1;
    if (!fuel_.spend(6 * n + 3 * program_.edges.size() + 6 * program_.calls.size())) return out_of_fuel(0);
    const std::vector<bool> lives = find_living();
    const auto procedure_lives = [&](ProcedureId id) { return lives[program_.procedures[id].start]; };
    const auto call_lives = [&](const Program::Call& c) {
      return lives[c.next] && procedure_lives(c.procedure);
    };
    const auto edge_lives = [&](const Program::Edge& e) { return lives[e.next]; };
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
  std::uint64_t steps_;
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
  if (!facts) return pass(facts);
  return Compiler(grammar, fuel, steps, limits, std::move(*facts)).run();
}

}  // namespace flyball::constrain
