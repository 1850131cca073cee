// Runs a Program: statements into an output text, expressions to values. One Interpreter is one render.
// Recursion is bounded twice: macro calls by the template limit, C++ frames by kFrames, sized for a 1 MiB
// stack under AddressSanitizer.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/text/jinja/ast.hpp"
#include "backends/text/jinja/loop.hpp"
#include "backends/text/jinja/runtime.hpp"

namespace flyball::text::jinja {

struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<NameId, Value>> variables;
};

class Interpreter final : public Runtime {
 public:
  Interpreter(const Program& program, std::uint64_t fuel, std::uint32_t depth, std::size_t output_limit,
              std::int64_t seconds);

  // A variable of the template's context; ignored where the template never names it.
  void define(std::string_view name, Value value);
  // The text that the template writes; `written`: its own parts. context_length_exceeded: more than
  // most_bytes.
  std::string render(std::size_t most_bytes, std::vector<TextSpan>& written);

  // Remembers when a loop is at this object, to say where a render failed. `number`: what watched() calls it.
  void watch(Value object, std::size_t number) {
    if (object.is(Kind::dict)) watched_.emplace(object.address(), number);
  }
  // The object that the innermost loop over watched objects was at when the render ended; nullopt: none.
  std::optional<std::size_t> watched() const noexcept { return at_watched_; }

  Value call(Value callee, Arguments&& arguments) override;
  std::uint32_t line() const noexcept { return line_; }

 private:
  enum class Flow : std::uint8_t { normal, break_, continue_ };
  static constexpr int kFrames = 200;
  class Frame;

  Flow run(const Block& block, Scope& scope);
  Flow run(const Statement& statement, Scope& scope);
  Flow conditional(const Statement& statement, Scope& scope);
  Flow loop(const Statement& statement, Scope& scope, std::span<const Value> items, std::size_t depth);
  void start_loop(const Statement& statement, Scope& scope);
  std::span<const Value> filtered(const Statement& statement, Scope& scope, std::span<const Value> items);
  void assign(const Target& target, Value value, Scope& scope);
  void assign_attribute(const Target& target, Value value, Scope& scope);
  void assign_block(const Statement& statement, Scope& scope);
  void filter_block(const Statement& statement, Scope& scope);
  void call_block(const Statement& statement, Scope& scope);
  void with(const Statement& statement, Scope& scope);
  void output(Value value);

  Value evaluate(const Expression& expression, Scope& scope);
  Value lookup(NameId id, std::string_view name, const Scope& scope);
  Value make_sequence(const Expression& expression, Scope& scope);
  Value make_dict(const Expression& expression, Scope& scope);
  Value concat(const Expression& expression, Scope& scope);
  Value chain(const Expression& expression, Scope& scope);
  Value comparison(const Expression& expression, Scope& scope);
  Value logic(const Expression& expression, Scope& scope);
  Value conditional_value(const Expression& expression, Scope& scope);
  Value postfix(const Expression& expression, Scope& scope);
  // caller: passed as the keyword of that name to the last call step, if not null.
  Value follow(const std::vector<Step>& steps, Value value, Scope& scope, const Value* caller);
  Value step(const Step& step, Value value, Scope& scope, const Value* caller);
  Value slice_step(const Step& step, Value value, Scope& scope);
  Value call_step(const Step& step, Value callee, Scope& scope, const Value* caller);
  Arguments arguments(const CallArguments* arguments, Scope& scope);

  Value call_macro(const Callable& callable, Arguments&& arguments);
  void bind_macro(const MacroNode& macro, Arguments&& arguments, Scope& scope);
  Value call_loop(Loop& loop, Arguments&& arguments);
  Value make_macro(const Statement& statement, Scope& scope);

  Scope& make_scope(Scope* parent);
  void set(Scope& scope, NameId name, Value value);

  // Collects what is output while it lives.
  class Capture;

  const Program& program_;
  std::uint32_t depth_left_;
  int frames_left_ = kFrames;
  std::uint32_t line_ = 0;
  TextBuilder* out_ = nullptr;
  std::unordered_map<const void*, std::size_t> watched_;  // by address: templates loop over slices, too
  std::optional<std::size_t> at_watched_;
  std::deque<Scope> scopes_;
  std::deque<Loop> loops_;
  Scope* root_;
  NameId loop_name_, caller_name_, varargs_name_, kwargs_name_;
};

}  // namespace flyball::text::jinja
