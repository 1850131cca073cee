// Expressions, by Jinja2's own precedence: conditional, or, and, not, comparison, + -, ~, * / // %, **, sign,
// postfix.
#include "backends/text/jinja/expression_parser.hpp"

#include <charconv>
#include <utility>

#include "backends/text/jinja/runtime.hpp"

namespace flyball::text::jinja {
namespace {

// The binary operators of each level, loosest first; level 1 is '~', which has a node of its own.
bool operator_at(int level, const LexToken& token, Operator& op) {
  if (token.kind != TokenKind::symbol) return false;
  const std::string_view s = token.text;
  switch (level) {
    case 0:
      op = s == "+" ? Operator::add : Operator::subtract;
      return s == "+" || s == "-";
    case 1:
      return s == "~";
    case 2:
      op = s == "*"    ? Operator::multiply
           : s == "/"  ? Operator::divide
           : s == "//" ? Operator::floor_divide
                       : Operator::modulo;
      return s == "*" || s == "/" || s == "//" || s == "%";
    default:
      op = Operator::power;
      return s == "**";
  }
}

bool comparison(const LexToken& token, Operator& op) {
  if (token.kind != TokenKind::symbol) return false;
  static constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"==", Operator::equal},      {"!=", Operator::not_equal}, {"<", Operator::less},
      {"<=", Operator::less_equal}, {">", Operator::greater},    {">=", Operator::greater_equal}};
  for (const auto& [text, found] : kOperators) {
    if (token.text == text) {
      op = found;
      return true;
    }
  }
  return false;
}

std::string without_underscores(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '_') out.push_back(c);
  }
  return out;
}

std::string_view describe(const LexToken& token) {
  switch (token.kind) {
    case TokenKind::text:
      return "text";
    case TokenKind::block_begin:
      return "{%";
    case TokenKind::block_end:
      return "%}";
    case TokenKind::variable_begin:
      return "{{";
    case TokenKind::variable_end:
      return "}}";
    case TokenKind::string:
      return "a string";
    case TokenKind::end:
      return "the end of the template";
    default:
      return token.text;
  }
}

}  // namespace

ExpressionParser::Nesting::Nesting(ExpressionParser& parser) : parser_(parser) {
  if (parser_.depth_ == 0) {
    fail_budget("the chat template nests too deeply", parser_.current().line);
  }
  --parser_.depth_;
}

bool ExpressionParser::skip_symbol(std::string_view symbol) {
  if (!current().is_symbol(symbol)) return false;
  next();
  return true;
}

bool ExpressionParser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  next();
  return true;
}

void ExpressionParser::expect_symbol(std::string_view symbol) {
  if (!skip_symbol(symbol)) fail_here("'" + std::string(symbol) + "'");
}

void ExpressionParser::expect_name(std::string_view name) {
  if (!skip_name(name)) fail_here("'" + std::string(name) + "'");
}

LexToken ExpressionParser::expect_kind(TokenKind kind, std::string_view what) {
  if (current().kind != kind) fail_here(what);
  return take();
}

void ExpressionParser::fail_here(std::string_view expected) const {
  fail_template("expected " + std::string(expected) + ", got '" + std::string(describe(current())) + "'",
                current().line);
}

NameId ExpressionParser::intern(std::string_view name) {
  return program_.names.try_emplace(name, static_cast<NameId>(program_.names.size())).first->second;
}

bool ExpressionParser::is_constant_name(std::string_view name) {
  return name == "true" || name == "True" || name == "false" || name == "False" || name == "none" ||
         name == "None";
}

Expression& ExpressionParser::make(ExpressionKind kind) {
  Expression& made = program_.expressions.emplace_back();
  made.kind = kind;
  made.line = current().line;
  return made;
}

const Expression* ExpressionParser::constant(Value value) {
  Expression& made = make(ExpressionKind::constant);
  made.value = value;
  return &made;
}

const Expression* ExpressionParser::tuple(bool with_conditional, std::string_view end) {
  const auto ends = [&] {
    const TokenKind kind = current().kind;
    return kind == TokenKind::variable_end || kind == TokenKind::block_end || current().is_symbol(")") ||
           (!end.empty() && current().is_name(end));
  };
  if (ends()) fail_here("an expression");
  const Expression* first = expression(with_conditional);
  if (!current().is_symbol(",")) return first;
  Expression& made = make(ExpressionKind::tuple);
  made.parts.push_back(first);
  while (skip_symbol(",")) {
    if (ends()) break;
    made.parts.push_back(expression(with_conditional));
  }
  return &made;
}

const Expression* ExpressionParser::expression(bool with_conditional) {
  const Nesting nesting(*this);
  if (!with_conditional) return logic_or();
  const bool soft = soft_;
  const Expression* value = logic_or();
  while (skip_name("if")) {
    Expression& made = make(ExpressionKind::conditional);
    soft_ = true;
    const Expression* test = logic_or();
    const Expression* otherwise = skip_name("else") ? expression() : nullptr;
    soft_ = soft;
    made.parts = {test, value, otherwise};
    value = &made;
  }
  return value;
}

const Expression* ExpressionParser::logic_or() {
  const Expression* first = logic_and();
  if (!current().is_name("or")) return first;
  Expression& made = make(ExpressionKind::logic_or);
  made.parts.push_back(first);
  while (skip_name("or")) made.parts.push_back(logic_and());
  return &made;
}

const Expression* ExpressionParser::logic_and() {
  const Expression* first = logic_not();
  if (!current().is_name("and")) return first;
  Expression& made = make(ExpressionKind::logic_and);
  made.parts.push_back(first);
  while (skip_name("and")) made.parts.push_back(logic_not());
  return &made;
}

const Expression* ExpressionParser::logic_not() {
  if (!current().is_name("not")) return compare();
  const Nesting nesting(*this);
  Expression& made = make(ExpressionKind::logic_not);
  next();
  made.parts.push_back(logic_not());
  return &made;
}

const Expression* ExpressionParser::compare() {
  const Expression* first = binary(0);
  Expression* made = nullptr;
  while (true) {
    Operator op{};
    if (comparison(current(), op)) {
      next();
    } else if (current().is_name("in")) {
      op = Operator::in;
      next();
    } else if (current().is_name("not") && ahead().is_name("in")) {
      op = Operator::not_in;
      next();
      next();
    } else {
      return made != nullptr ? made : first;
    }
    if (made == nullptr) {
      made = &make(ExpressionKind::compare);
      made->parts.push_back(first);
    }
    made->operators.push_back(op);
    made->parts.push_back(binary(0));
  }
}

const Expression* ExpressionParser::binary(int level) {
  constexpr int kTightest = 3;
  const auto operand = [&] { return level == kTightest ? unary(true) : binary(level + 1); };
  const Expression* first = operand();
  Operator op{};
  if (!operator_at(level, current(), op)) return first;
  Expression& made = make(level == 1 ? ExpressionKind::concat : ExpressionKind::arithmetic);
  made.parts.push_back(first);
  while (operator_at(level, current(), op)) {
    next();
    made.operators.push_back(op);
    made.parts.push_back(operand());
  }
  return &made;
}

const Expression* ExpressionParser::unary(bool with_filter) {
  if (!current().is_symbol("-") && !current().is_symbol("+")) return postfix(primary(), true, with_filter);
  const Nesting nesting(*this);
  Expression& made = make(current().text == "-" ? ExpressionKind::negate : ExpressionKind::plus);
  next();
  made.parts.push_back(unary(false));
  return postfix(&made, true, with_filter);
}

const Expression* ExpressionParser::primary() {
  const LexToken token = current();
  switch (token.kind) {
    case TokenKind::name: {
      next();
      if (token.text == "true" || token.text == "True") return constant(Value::boolean(true));
      if (token.text == "false" || token.text == "False") return constant(Value::boolean(false));
      if (token.text == "none" || token.text == "None") return constant(Value::none());
      for (MacroNode* macro : macros_) {
        macro->uses_caller |= token.text == "caller";
        macro->uses_varargs |= token.text == "varargs";
        macro->uses_kwargs |= token.text == "kwargs";
      }
      Expression& made = make(ExpressionKind::name);
      made.line = token.line;
      made.text = token.text;
      made.name = intern(token.text);
      return &made;
    }
    case TokenKind::string: {
      next();
      if (current().kind != TokenKind::string) return constant(Value::string(token.text));
      std::string& joined = program_.texts.emplace_back(token.text);
      while (current().kind == TokenKind::string) joined += take().text;
      return constant(Value::string(joined));
    }
    case TokenKind::integer:
    case TokenKind::real:
      return number();
    case TokenKind::symbol:
      if (token.text == "(") {
        next();
        if (skip_symbol(")")) return &make(ExpressionKind::tuple);
        const Expression* inner = tuple(true);
        expect_symbol(")");
        return inner;
      }
      if (token.text == "[") return list();
      if (token.text == "{") return dict();
      break;
    default:
      break;
  }
  fail_here("an expression");
}

const Expression* ExpressionParser::number() {
  const LexToken token = take();
  std::string digits = without_underscores(token.text);
  if (token.kind == TokenKind::real) {
    double value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc{}) {
      fail_template("the number " + digits + " is out of range", token.line);
    }
    return constant(Value::real(value));
  }
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0') {
    const char mark = static_cast<char>(digits[1] | 0x20);
    base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
  }
  const char* begin = digits.data() + (base == 10 ? 0 : 2);
  std::int64_t value = 0;
  if (std::from_chars(begin, digits.data() + digits.size(), value, base).ec != std::errc{}) {
    fail_template("the integer " + digits + " is out of range", token.line);
  }
  return constant(Value::integer(value));
}

const Expression* ExpressionParser::list() {
  next();
  Expression& made = make(ExpressionKind::list);
  while (!current().is_symbol("]")) {
    if (!made.parts.empty()) expect_symbol(",");
    if (current().is_symbol("]")) break;
    made.parts.push_back(expression());
  }
  next();
  return &made;
}

const Expression* ExpressionParser::dict() {
  next();
  Expression& made = make(ExpressionKind::dict);
  while (!current().is_symbol("}")) {
    if (!made.parts.empty()) expect_symbol(",");
    if (current().is_symbol("}")) break;
    made.parts.push_back(expression());
    expect_symbol(":");
    made.parts.push_back(expression());
  }
  next();
  return &made;
}

const Expression* ExpressionParser::postfix(const Expression* base, bool calls_and_dots, bool filters) {
  Expression* made = nullptr;
  const auto add = [&](Step&& step) {
    if (made == nullptr) {
      made = &make(ExpressionKind::postfix);
      made->line = step.line;
      made->parts.push_back(base);
    }
    made->steps.push_back(std::move(step));
  };
  while (calls_and_dots) {
    if (current().is_symbol(".")) {
      add(dot());
    } else if (current().is_symbol("[")) {
      add(subscript());
    } else if (current().is_symbol("(")) {
      Step step(StepKind::call, current().line);
      step.arguments = call_arguments();
      add(std::move(step));
    } else {
      break;
    }
  }
  while (filters) {
    if (current().is_symbol("|")) {
      next();
      add(filter_step());
    } else if (current().is_name("is")) {
      add(test_step());
    } else if (current().is_symbol("(")) {
      Step step(StepKind::call, current().line);
      step.arguments = call_arguments();
      add(std::move(step));
    } else {
      break;
    }
  }
  return made != nullptr ? made : base;
}

Step ExpressionParser::dot() {
  next();
  Step step(StepKind::attribute, current().line);
  if (current().kind == TokenKind::integer) {
    step.kind = StepKind::item;
    step.index[0] = number();
    return step;
  }
  step.name = expect_kind(TokenKind::name, "an attribute's name").text;
  return step;
}

Step ExpressionParser::subscript() {
  Step step(StepKind::item, current().line);
  next();
  std::size_t part = 0;
  if (!current().is_symbol(":")) step.index[0] = expression();
  while (part < 2 && skip_symbol(":")) {
    step.kind = StepKind::slice;
    ++part;
    if (!current().is_symbol(":") && !current().is_symbol("]")) step.index[part] = expression();
  }
  if (step.kind == StepKind::item && current().is_symbol(",")) {
    Expression& made = make(ExpressionKind::tuple);
    made.parts.push_back(step.index[0]);
    while (skip_symbol(",")) made.parts.push_back(expression());
    step.index[0] = &made;
  }
  expect_symbol("]");
  return step;
}

std::string_view ExpressionParser::dotted_name() {
  const std::string_view name = expect_kind(TokenKind::name, "a name").text;
  if (!current().is_symbol(".")) return name;
  std::string& joined = program_.texts.emplace_back(name);
  while (skip_symbol(".")) {
    joined += '.';
    joined += expect_kind(TokenKind::name, "a name").text;
  }
  return joined;
}

Step ExpressionParser::filter_step() {
  Step step(StepKind::filter, current().line);
  step.name = dotted_name();
  step.native = find_filter(step.name);
  check_known(step);
  if (current().is_symbol("(")) step.arguments = call_arguments();
  return step;
}

Step ExpressionParser::test_step() {
  next();
  Step step(StepKind::test, current().line);
  step.negated = skip_name("not");
  step.name = dotted_name();
  step.native = find_test(step.name);
  check_known(step);
  const TokenKind kind = current().kind;
  if (current().is_symbol("(")) {
    step.arguments = call_arguments();
  } else if (kind == TokenKind::string || kind == TokenKind::integer || kind == TokenKind::real ||
             current().is_symbol("[") || current().is_symbol("{") ||
             (kind == TokenKind::name && !current().is_name("else") && !current().is_name("or") &&
              !current().is_name("and"))) {
    if (current().is_name("is")) fail_template("tests cannot be chained with 'is'", step.line);
    CallArguments& made = program_.arguments.emplace_back();
    made.positional.push_back(postfix(primary(), true, false));
    step.arguments = &made;
  }
  return step;
}

void ExpressionParser::check_known(const Step& step) const {
  if (step.native != nullptr || soft_) return;
  fail_template((step.kind == StepKind::filter ? "no filter named '" : "no test named '") +
                    std::string(step.name) + "'",
                step.line);
}

const Expression* ExpressionParser::filter_chain(bool named) {
  Expression& made = make(ExpressionKind::postfix);
  if (named) made.steps.push_back(filter_step());
  while (skip_symbol("|")) made.steps.push_back(filter_step());
  return &made;
}

const CallArguments* ExpressionParser::call_arguments() {
  const Nesting nesting(*this);
  expect_symbol("(");
  CallArguments& made = program_.arguments.emplace_back();
  bool first = true;
  while (!current().is_symbol(")")) {
    if (!std::exchange(first, false)) {
      expect_symbol(",");
      if (current().is_symbol(")")) break;
    }
    if (skip_symbol("*")) {
      if (made.star != nullptr || made.double_star != nullptr) fail_here("one '*' argument");
      made.star = expression();
    } else if (skip_symbol("**")) {
      if (made.double_star != nullptr) fail_here("one '**' argument");
      made.double_star = expression();
    } else if (current().kind == TokenKind::name && ahead().is_symbol("=")) {
      if (made.double_star != nullptr) fail_here("no argument behind '**'");
      const std::string_view name = take().text;
      next();
      made.keyword.emplace_back(name, expression());
    } else {
      if (!made.keyword.empty() || made.star != nullptr || made.double_star != nullptr) {
        fail_here("a named argument");
      }
      made.positional.push_back(expression());
    }
  }
  next();
  return &made;
}

}  // namespace flyball::text::jinja
