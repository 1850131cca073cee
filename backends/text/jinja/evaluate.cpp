// Expressions. Each case that needs locals is a function of its own, so that the recursive frames stay small.
#include <utility>

#include "backends/text/jinja/frame.hpp"
#include "backends/text/jinja/interpreter.hpp"
#include "backends/text/jinja/operators.hpp"

namespace flyball::text::jinja {

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

}  // namespace flyball::text::jinja
