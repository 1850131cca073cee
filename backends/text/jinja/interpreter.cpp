// Statements, scopes, expressions and macros.
#include "backends/text/jinja/interpreter.hpp"

#include <utility>

#include "backends/text/jinja/globals.hpp"
#include "backends/text/jinja/operators.hpp"

namespace flyball::text::jinja {
namespace {

constexpr NameId kNoName = ~NameId{0};

NameId name_of(const Program& program, std::string_view name) {
  const auto found = program.names.find(name);
  return found == program.names.end() ? kNoName : found->second;
}

}  // namespace

// One bounded C++ frame of the interpreter.
class Interpreter::Frame {
 public:
  explicit Frame(Interpreter& interpreter) : interpreter_(interpreter) {
    if (interpreter_.frames_left_ == 0) fail_budget("the chat template nests too deeply at run time");
    --interpreter_.frames_left_;
  }
  ~Frame() { ++interpreter_.frames_left_; }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 private:
  Interpreter& interpreter_;
};

class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& interpreter) : Capture(interpreter, interpreter.output_bytes) {}
  Capture(Interpreter& interpreter, std::size_t most)
      : interpreter_(interpreter),
        text_(interpreter, most),
        outer_(std::exchange(interpreter.out_, &text_)) {}
  ~Capture() { interpreter_.out_ = outer_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  Value take() { return text_.take_value(); }
  std::string take_text(std::vector<TextSpan>& written) {
    written = text_.take_written();
    return text_.take();
  }

 private:
  Interpreter& interpreter_;
  TextBuilder text_;
  TextBuilder* outer_;
};

Interpreter::Interpreter(const Program& program, std::uint64_t fuel, std::uint32_t depth,
                         std::size_t output_limit, std::int64_t seconds)
    : Runtime(fuel, output_limit, seconds),
      program_(program),
      depth_left_(depth),
      loop_name_(name_of(program, "loop")),
      caller_name_(name_of(program, "caller")),
      varargs_name_(name_of(program, "varargs")),
      kwargs_name_(name_of(program, "kwargs")) {
  origins.add(program.source);
  for (const std::string& text : program.texts) origins.add(text);
  // Globals stand around the context, which may hide them.
  Scope& globals = make_scope(nullptr);
  for (const auto& [name, id] : program.names) {
    if (const Native native = find_global(name))
      globals.variables.emplace_back(id, heap.bind(native, Value(), name));
  }
  root_ = &make_scope(&globals);
}

void Interpreter::define(std::string_view name, Value value) {
  const NameId id = name_of(program_, name);
  if (id != kNoName) set(*root_, id, value);
}

std::string Interpreter::render(std::size_t most_bytes, std::vector<TextSpan>& written) {
  Capture capture(*this, most_bytes);
  run(program_.body, make_scope(root_));
  return capture.take_text(written);
}

Scope& Interpreter::make_scope(Scope* parent) {
  budget.spend(1);
  Scope& made = scopes_.emplace_back();
  made.parent = parent;
  return made;
}

void Interpreter::set(Scope& scope, NameId name, Value value) {
  budget.spend(scope.variables.size() / 16);
  for (auto& [known, slot] : scope.variables) {
    if (known == name) {
      slot = value;
      return;
    }
  }
  scope.variables.emplace_back(name, value);
}

void Interpreter::output(Value value) {
  append_text(*this, *out_, value);
}

Interpreter::Flow Interpreter::run(const Block& block, Scope& scope) {
  for (const Statement* statement : block) {
    if (const Flow flow = run(*statement, scope); flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::run(const Statement& statement, Scope& scope) {
  const Frame frame(*this);
  budget.spend(1);
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::text:
      out_->append(statement.text);
      break;
    case StatementKind::output:
      output(evaluate(*statement.expression, scope));
      break;
    case StatementKind::conditional:
      return conditional(statement, scope);
    case StatementKind::loop:
      start_loop(statement, scope);
      break;
    case StatementKind::assign:
      assign(statement.target, evaluate(*statement.expression, scope), scope);
      break;
    case StatementKind::assign_block:
      assign_block(statement, scope);
      break;
    case StatementKind::macro:
      set(scope, statement.macro_name, make_macro(statement, scope));
      break;
    case StatementKind::call_block:
      call_block(statement, scope);
      break;
    case StatementKind::filter_block:
      filter_block(statement, scope);
      break;
    case StatementKind::with:
      with(statement, scope);
      break;
    case StatementKind::scope:
      run(statement.body, make_scope(&scope));
      break;
    case StatementKind::break_:
      return Flow::break_;
    case StatementKind::continue_:
      return Flow::continue_;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::conditional(const Statement& statement, Scope& scope) {
  for (const auto& [test, body] : statement.branches) {
    if (truth(evaluate(*test, scope))) return run(body, scope);
  }
  return run(statement.otherwise, scope);
}

void Interpreter::start_loop(const Statement& statement, Scope& scope) {
  loop(statement, scope, iterate(evaluate(*statement.expression, scope)), 1);
}

std::span<const Value> Interpreter::filtered(const Statement& statement, Scope& scope,
                                             std::span<const Value> items) {
  Scope& inner = make_scope(&scope);
  std::vector<Value> kept;
  for (const Value& value : items) {
    budget.spend(1);
    inner.variables.clear();
    assign(statement.target, value, inner);
    if (truth(evaluate(*statement.filter, inner))) kept.push_back(value);
  }
  return heap.list(std::move(kept)).as_sequence().items;
}

Interpreter::Flow Interpreter::loop(const Statement& statement, Scope& scope, std::span<const Value> items,
                                    std::size_t depth) {
  if (statement.filter != nullptr) items = filtered(statement, scope, items);
  Loop& state = loops_.emplace_back();
  state.items = items;
  state.depth = depth;
  state.statement = &statement;
  state.scope = &scope;
  Scope& inner = make_scope(&scope);
  // As in Jinja2 3.1, `else` runs unless one iteration came to the end of the body.
  bool completed = false;
  const auto outer = at_watched_;  // stands where the body throws
  for (std::size_t i = 0; i < items.size(); ++i) {
    budget.spend(1);
    state.index = i;
    if (items[i].is(Kind::dict))
      if (const auto found = watched_.find(items[i].address()); found != watched_.end())
        at_watched_ = found->second;
    inner.variables.clear();  // what an iteration sets is gone in the next
    if (loop_name_ != kNoName) inner.variables.emplace_back(loop_name_, Value::loop(&state));
    assign(statement.target, items[i], inner);
    const Flow flow = run(statement.body, inner);
    if (flow == Flow::break_) break;
    completed |= flow == Flow::normal;
  }
  at_watched_ = outer;
  if (!completed && !statement.otherwise.empty()) run(statement.otherwise, make_scope(&scope));
  return Flow::normal;
}

void Interpreter::assign(const Target& target, Value value, Scope& scope) {
  if (!target.is_tuple) {
    if (!target.attribute.empty()) return assign_attribute(target, value, scope);
    return set(scope, target.name, value);
  }
  if (value.is_undefined()) fail_undefined(value);
  const std::span<const Value> items = iterate(value);
  if (items.size() != target.parts.size()) {
    fail_template("expected " + std::to_string(target.parts.size()) + " values to unpack, got " +
                  std::to_string(items.size()));
  }
  for (std::size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i], scope);
}

void Interpreter::assign_attribute(const Target& target, Value value, Scope& scope) {
  const Value object = lookup(target.name, target.text, scope);
  if (!object.is(Kind::name_space)) fail_template("cannot assign attribute on non-namespace object");
  auto& attributes = object.as_namespace().attributes;
  budget.spend(attributes.size());
  for (auto& [known, slot] : attributes) {
    if (known == target.attribute) {
      slot = value;
      return;
    }
  }
  attributes.emplace_back(target.attribute, value);
}

void Interpreter::assign_block(const Statement& statement, Scope& scope) {
  Value text;
  {
    Capture capture(*this);
    run(statement.body, make_scope(&scope));
    text = capture.take();
  }
  assign(statement.target, follow(statement.expression->steps, text, scope, nullptr), scope);
}

void Interpreter::filter_block(const Statement& statement, Scope& scope) {
  Value text;
  {
    Capture capture(*this);
    run(statement.body, make_scope(&scope));
    text = capture.take();
  }
  output(follow(statement.expression->steps, text, scope, nullptr));
}

void Interpreter::with(const Statement& statement, Scope& scope) {
  std::vector<Value> values;
  for (const auto& [target, expression] : statement.assignments)
    values.push_back(evaluate(*expression, scope));
  Scope& inner = make_scope(&scope);
  for (std::size_t i = 0; i < values.size(); ++i) assign(statement.assignments[i].first, values[i], inner);
  run(statement.body, inner);
}

void Interpreter::call_block(const Statement& statement, Scope& scope) {
  const Value caller = make_macro(statement, scope);
  const Expression& call = *statement.expression;
  output(follow(call.steps, evaluate(*call.parts[0], scope), scope, &caller));
}

// Each case that needs locals is a function of its own, so that the recursive frames stay small.
Value Interpreter::evaluate(const Expression& expression, Scope& scope) {
  const Frame frame(*this);
  budget.spend(1);
  switch (expression.kind) {
    case ExpressionKind::constant:
      return expression.value;
    case ExpressionKind::name:
      return lookup(expression.name, expression.text, scope);
    case ExpressionKind::list:
    case ExpressionKind::tuple:
      return make_sequence(expression, scope);
    case ExpressionKind::dict:
      return make_dict(expression, scope);
    case ExpressionKind::concat:
      return concat(expression, scope);
    case ExpressionKind::arithmetic:
      return chain(expression, scope);
    case ExpressionKind::compare:
      return comparison(expression, scope);
    case ExpressionKind::logic_and:
    case ExpressionKind::logic_or:
      return logic(expression, scope);
    case ExpressionKind::logic_not:
      return Value::boolean(!truth(evaluate(*expression.parts[0], scope)));
    case ExpressionKind::negate:
      return negate(evaluate(*expression.parts[0], scope));
    case ExpressionKind::plus:
      return positive(evaluate(*expression.parts[0], scope));
    case ExpressionKind::conditional:
      return conditional_value(expression, scope);
    case ExpressionKind::postfix:
      return postfix(expression, scope);
  }
  return Value();
}

Value Interpreter::lookup(NameId id, std::string_view name, const Scope& scope) {
  for (const Scope* at = &scope; at != nullptr; at = at->parent) {
    budget.spend(at->variables.size() / 16 + 1);
    for (const auto& [known, value] : at->variables) {
      if (known == id) return value;
    }
  }
  return Value::undefined(name);
}

Value Interpreter::make_sequence(const Expression& expression, Scope& scope) {
  std::vector<Value> items;
  items.reserve(expression.parts.size());
  for (const Expression* part : expression.parts) items.push_back(evaluate(*part, scope));
  return heap.sequence(expression.kind == ExpressionKind::list ? SequenceKind::list : SequenceKind::tuple,
                       std::move(items));
}

Value Interpreter::make_dict(const Expression& expression, Scope& scope) {
  Dict& made = heap.dict();
  for (std::size_t i = 0; i + 1 < expression.parts.size(); i += 2) {
    const Value key = evaluate(*expression.parts[i], scope);
    heap.set(made, key, evaluate(*expression.parts[i + 1], scope));
  }
  return Value::dict(&made);
}

Value Interpreter::concat(const Expression& expression, Scope& scope) {
  TextBuilder out(*this);
  for (const Expression* part : expression.parts) append_text(*this, out, evaluate(*part, scope));
  return out.take_value();
}

Value Interpreter::chain(const Expression& expression, Scope& scope) {
  Value value = evaluate(*expression.parts[0], scope);
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    const Value right = evaluate(*expression.parts[i + 1], scope);
    line_ = expression.line;
    value = arithmetic(*this, expression.operators[i], value, right);
  }
  return value;
}

Value Interpreter::comparison(const Expression& expression, Scope& scope) {
  Value left = evaluate(*expression.parts[0], scope);
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    const Value right = evaluate(*expression.parts[i + 1], scope);
    line_ = expression.line;
    if (!compare(*this, expression.operators[i], left, right)) return Value::boolean(false);
    left = right;
  }
  return Value::boolean(true);
}

// Python's `and` and `or`: the operand that decided.
Value Interpreter::logic(const Expression& expression, Scope& scope) {
  const bool stops_at = expression.kind == ExpressionKind::logic_or;
  Value value;
  for (const Expression* part : expression.parts) {
    value = evaluate(*part, scope);
    if (truth(value) == stops_at) break;
  }
  return value;
}

Value Interpreter::conditional_value(const Expression& expression, Scope& scope) {
  if (truth(evaluate(*expression.parts[0], scope))) return evaluate(*expression.parts[1], scope);
  return expression.parts[2] != nullptr ? evaluate(*expression.parts[2], scope) : Value();
}

Value Interpreter::postfix(const Expression& expression, Scope& scope) {
  return follow(expression.steps, evaluate(*expression.parts[0], scope), scope, nullptr);
}

Value Interpreter::follow(const std::vector<Step>& steps, Value value, Scope& scope, const Value* caller) {
  for (const Step& each : steps) {
    budget.spend(1);
    value = step(each, value, scope, &each == &steps.back() ? caller : nullptr);
  }
  return value;
}

Value Interpreter::step(const Step& step, Value value, Scope& scope, const Value* caller) {
  line_ = step.line;
  switch (step.kind) {
    case StepKind::attribute:
      return attribute(*this, value, step.name);
    case StepKind::item:
      return item(*this, value, evaluate(*step.index[0], scope));
    case StepKind::slice:
      return slice_step(step, value, scope);
    default:
      return call_step(step, value, scope, caller);
  }
}

Value Interpreter::slice_step(const Step& step, Value value, Scope& scope) {
  const auto bound = [&](int i) {
    return step.index[i] != nullptr ? evaluate(*step.index[i], scope) : Value::none();
  };
  const Value start = bound(0);
  const Value stop = bound(1);
  return slice(*this, value, start, stop, bound(2));
}

Value Interpreter::call_step(const Step& step, Value callee, Scope& scope, const Value* caller) {
  Arguments given = arguments(step.arguments, scope);
  line_ = step.line;
  if (step.kind == StepKind::call) {
    if (caller != nullptr) given.keyword.emplace_back("caller", *caller);
    return call(callee, std::move(given));
  }
  if (step.native == nullptr) {
    fail_template((step.kind == StepKind::filter ? "no filter named '" : "no test named '") +
                  std::string(step.name) + "'");
  }
  const Value result = step.native(*this, callee, given);
  return step.negated ? Value::boolean(!truth(result)) : result;
}

Arguments Interpreter::arguments(const CallArguments* arguments, Scope& scope) {
  Arguments given;
  if (arguments == nullptr) return given;
  given.positional.reserve(arguments->positional.size());
  for (const Expression* argument : arguments->positional)
    given.positional.push_back(evaluate(*argument, scope));
  for (const auto& [name, argument] : arguments->keyword)
    given.keyword.emplace_back(name, evaluate(*argument, scope));
  if (arguments->star != nullptr) {
    const std::span<const Value> items = iterate(evaluate(*arguments->star, scope));
    budget.spend(items.size());
    given.positional.insert(given.positional.end(), items.begin(), items.end());
  }
  if (arguments->double_star != nullptr) {
    const Value named = evaluate(*arguments->double_star, scope);
    if (!named.is(Kind::dict)) fail_template("the argument behind ** must be a mapping");
    budget.spend(named.as_dict().entries.size());
    for (const auto& [name, value] : named.as_dict().entries) {
      if (!name.is_string()) fail_template("keywords must be strings");
      given.keyword.emplace_back(name.as_text(), value);
    }
  }
  return given;
}

Value Interpreter::make_macro(const Statement& statement, Scope& scope) {
  auto& made = heap.make_callable();
  made.macro = statement.macro;
  made.scope = &scope;
  made.name = statement.macro->name;
  return Value::callable(&made);
}

Value Interpreter::call(Value callee, Arguments&& arguments) {
  budget.spend(1 + arguments.positional.size() + arguments.keyword.size());
  switch (callee.kind()) {
    case Kind::callable: {
      const Callable& callable = callee.as_callable();
      return callable.macro != nullptr ? call_macro(callable, std::move(arguments))
                                       : callable.native(*this, callable.self, arguments);
    }
    case Kind::joiner:
      return call_joiner(callee.as_joiner());
    case Kind::loop:
      return call_loop(callee.as_loop(), std::move(arguments));
    case Kind::undefined:
      fail_undefined(callee);
    default:
      fail_template("'" + std::string(type_name(callee)) + "' object is not callable");
  }
}

Value Interpreter::call_macro(const Callable& callable, Arguments&& arguments) {
  if (depth_left_ == 0) fail_budget("the chat template's macros call each other too deeply");
  --depth_left_;
  const std::uint32_t line = line_;
  Scope& scope = make_scope(callable.scope);
  Capture capture(*this);
  bind_macro(*callable.macro, std::move(arguments), scope);
  run(callable.macro->body, scope);
  ++depth_left_;  // a failure ends the render, so it need not be put back then
  line_ = line;
  return capture.take();
}

void Interpreter::bind_macro(const MacroNode& macro, Arguments&& arguments, Scope& scope) {
  const std::size_t given = arguments.positional.size();
  std::size_t keywords_used = 0;
  budget.spend(macro.parameters.size() * (1 + arguments.keyword.size() / 4));
  const auto keyword = [&](std::string_view name) -> const Value* {
    for (const auto& [known, value] : arguments.keyword) {
      if (known == name) return &value;
    }
    return nullptr;
  };
  std::vector<bool> is_missing(macro.parameters.size());
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    const auto& parameter = macro.parameters[i];
    if (i < given) {
      set(scope, parameter.name, arguments.positional[i]);
    } else if (const Value* value = keyword(parameter.text)) {
      ++keywords_used;
      set(scope, parameter.name, *value);
    } else {
      set(scope, parameter.name, Value::undefined(parameter.text));
      is_missing[i] = true;
    }
  }
  // Defaults are evaluated in the macro's own frame, from left to right.
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    const auto& parameter = macro.parameters[i];
    if (is_missing[i] && parameter.fallback != nullptr)
      set(scope, parameter.name, evaluate(*parameter.fallback, scope));
  }
  const Value* caller = keyword("caller");
  if (macro.uses_caller) {
    keywords_used += caller != nullptr ? 1 : 0;
    set(scope, caller_name_, caller != nullptr ? *caller : Value::undefined("caller"));
  }
  if (macro.uses_kwargs) {
    Dict& rest = heap.dict();
    for (const auto& [name, value] : arguments.keyword) {
      bool is_parameter = macro.uses_caller && name == "caller";
      for (std::size_t i = given; i < macro.parameters.size(); ++i)
        is_parameter |= macro.parameters[i].text == name;
      if (!is_parameter) heap.set(rest, Value::string(name), value);
    }
    set(scope, kwargs_name_, Value::dict(&rest));
  } else if (keywords_used < arguments.keyword.size()) {
    fail_template("macro '" + std::string(macro.name) + "' got an unexpected keyword argument");
  }
  if (macro.uses_varargs) {
    std::vector<Value> rest;
    if (given > macro.parameters.size()) {
      rest.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(macro.parameters.size()),
                  arguments.positional.end());
    }
    set(scope, varargs_name_, heap.tuple(std::move(rest)));
  } else if (given > macro.parameters.size()) {
    fail_template("macro '" + std::string(macro.name) + "' takes not more than " +
                  std::to_string(macro.parameters.size()) + " arguments");
  }
}

Value Interpreter::call_loop(Loop& state, Arguments&& arguments) {
  const Bound bound("loop", arguments, {"iterable"}, 1);
  if (!state.statement->recursive) fail_template("the loop is not marked as recursive");
  if (depth_left_ == 0) fail_budget("the chat template's loops recurse too deeply");
  --depth_left_;
  Capture capture(*this);
  loop(*state.statement, *state.scope, iterate(bound[0]), state.depth + 1);
  ++depth_left_;
  return capture.take();
}

}  // namespace flyball::text::jinja
