// Truth, equality, order, arithmetic. Attributes, items and slices are in access.cpp.
#include "backends/text/jinja/operators.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "backends/text/jinja/format.hpp"
#include "backends/text/jinja/unicode.hpp"

namespace flyball::text::jinja {
namespace {

double to_real(Value value) {
  return value.is(Kind::real) ? value.as_real() : static_cast<double>(value.as_int());
}

[[noreturn]] void fail_operands(std::string_view op, Value a, Value b) {
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  if (a.is(Kind::big_integer) || b.is(Kind::big_integer))
    fail_template("an integer is out of range for arithmetic");
  fail_template("unsupported operand types for " + std::string(op) + ": '" + std::string(type_name(a)) +
                "' and '" + std::string(type_name(b)) + "'");
}

[[noreturn]] void fail_overflow() {
  fail_template("the result of integer arithmetic is out of range");
}

void check_depth(int depth) {
  if (depth > kValueDepth)
    fail_budget("a value nests deeper than " + std::to_string(kValueDepth) + " levels");
}

// int and float of any mix compare by value, exactly.
std::optional<int> order_numbers(Value a, Value b) {
  if (a.is(Kind::real) || b.is(Kind::real)) {
    const double x = to_real(a);
    const double y = to_real(b);
    if (std::isnan(x) || std::isnan(y)) return std::nullopt;
    if (x != y || (a.is(Kind::real) && b.is(Kind::real))) return x < y ? -1 : x > y ? 1 : 0;
    if (std::fabs(x) >= 9.2e18) return 0;
    const auto whole = [](Value v) {
      return v.is(Kind::real) ? static_cast<std::int64_t>(v.as_real()) : v.as_int();
    };
    return whole(a) < whole(b) ? -1 : whole(a) > whole(b) ? 1 : 0;
  }
  return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int() ? 1 : 0;
}

bool is_ordered_sequence(Value value) {
  return value.is(Kind::sequence) &&
         (value.as_sequence().kind == SequenceKind::list || value.as_sequence().kind == SequenceKind::tuple);
}

bool equal_dicts(const Dict& a, const Dict& b, Budget& budget, int depth) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = find_key(b, key, budget);
    if (other == nullptr || !equal(value, *other, budget, depth + 1)) return false;
  }
  return true;
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == -1) {
    std::int64_t negated = 0;
    if (__builtin_sub_overflow(std::int64_t{0}, a, &negated)) fail_overflow();
    return negated;
  }
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Value power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) fail_template("0 cannot be raised to a negative power");
    return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  std::int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
  }
  return Value::integer(result);
}

Value integer_arithmetic(Operator op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case Operator::add:
      if (__builtin_add_overflow(a, b, &result)) fail_overflow();
      return Value::integer(result);
    case Operator::subtract:
      if (__builtin_sub_overflow(a, b, &result)) fail_overflow();
      return Value::integer(result);
    case Operator::multiply:
      if (__builtin_mul_overflow(a, b, &result)) fail_overflow();
      return Value::integer(result);
    case Operator::power:
      return power(a, b);
    default:
      break;
  }
  if (b == 0) fail_template("division by zero");
  if (op == Operator::divide) return Value::real(static_cast<double>(a) / static_cast<double>(b));
  if (op == Operator::floor_divide) return Value::integer(floor_divide(a, b));
  return Value::integer(b == -1 ? 0 : ((a % b) + b) % b);
}

Value real_arithmetic(Operator op, double a, double b) {
  switch (op) {
    case Operator::add:
      return Value::real(a + b);
    case Operator::subtract:
      return Value::real(a - b);
    case Operator::multiply:
      return Value::real(a * b);
    case Operator::power: {
      if ((a == 0 && b < 0) || (a < 0 && b != std::floor(b))) fail_template("a power without a real result");
      const double result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b))
        fail_template("the result is out of range");
      return Value::real(result);
    }
    default:
      break;
  }
  if (b == 0) fail_template("division by zero");
  if (op == Operator::divide) return Value::real(a / b);
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  if (op == Operator::modulo) return Value::real(remainder == 0 ? std::copysign(0.0, b) : remainder);
  return Value::real(std::floor((a - remainder) / b + 0.5));
}

std::string_view symbol(Operator op) {
  static constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kSymbols[static_cast<std::size_t>(op)];
}

Value concatenate(Runtime& runtime, Value a, Value b) {
  if (a.is_string() && b.is_string()) {
    TextBuilder out(runtime);
    const bool markup = a.is_markup() || b.is_markup();
    const auto add = [&](Value part) {
      if (markup && !part.is_markup()) {
        append_escaped(out, part.as_text());
      } else {
        out.append(part.as_text());
      }
    };
    add(a);
    add(b);
    return out.take_value(markup);
  }
  if (is_ordered_sequence(a) && is_ordered_sequence(b) && a.as_sequence().kind == b.as_sequence().kind) {
    const auto& x = a.as_sequence().items;
    const auto& y = b.as_sequence().items;
    runtime.budget.spend(x.size() + y.size());
    std::vector<Value> items(x);
    items.insert(items.end(), y.begin(), y.end());
    return runtime.heap.sequence(a.as_sequence().kind, std::move(items));
  }
  fail_operands("+", a, b);
}

Value repeat(Runtime& runtime, Value object, std::int64_t times) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  if (object.is_string()) {
    TextBuilder out(runtime);
    out.append_repeated(object.as_text(), count);
    return out.take_value(object.is_markup());
  }
  const auto& items = object.as_sequence().items;
  if (!items.empty() && count > runtime.budget.left() / items.size()) {
    fail_budget("a list is repeated " + std::to_string(count) + " times, more than the budget allows");
  }
  runtime.budget.spend(items.size() * count);
  std::vector<Value> repeated;
  repeated.reserve(items.size() * count);
  for (std::size_t i = 0; i < count; ++i) repeated.insert(repeated.end(), items.begin(), items.end());
  return runtime.heap.sequence(object.as_sequence().kind, std::move(repeated));
}

}  // namespace

void fail_undefined(Value value) {
  const std::string name(value.as_text());
  if (value.missing_from() == Kind::undefined) {
    fail_template(name.empty() ? "a value is undefined" : "'" + name + "' is undefined");
  }
  std::string_view owner = "object";
  switch (value.missing_from()) {
    case Kind::none:
      owner = "None";
      break;
    case Kind::string:
      owner = "str object";
      break;
    case Kind::dict:
      owner = "dict object";
      break;
    case Kind::sequence:
      owner = "list object";
      break;
    case Kind::name_space:
      owner = "namespace object";
      break;
    default:
      break;
  }
  const bool is_index = !name.empty() && (name[0] == '-' || (name[0] >= '0' && name[0] <= '9'));
  if (is_index) fail_template(std::string(owner) + " has no element " + name);
  fail_template("'" + std::string(owner) + "' has no attribute '" + name + "'");
}

bool truth(Value value) noexcept {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return value.as_int() != 0;
    case Kind::real:
      return value.as_real() != 0;
    case Kind::string:
      return !value.as_text().empty();
    case Kind::sequence:
      return value.as_sequence().kind == SequenceKind::iterator || !value.as_sequence().items.empty();
    case Kind::dict:
      return !value.as_dict().entries.empty();
    default:
      return true;
  }
}

bool equal(Value a, Value b, Budget& budget, int depth) {
  budget.spend(1);
  check_depth(depth);
  if (a.is(Kind::big_integer) || b.is(Kind::big_integer)) {
    if (a.kind() != b.kind()) return false;
    budget.spend(a.as_text().size() / 16);
    return a.as_text() == b.as_text();
  }
  if (a.is_number() && b.is_number()) return order_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::string:
      if (a.as_text().size() != b.as_text().size()) return false;
      budget.spend(a.as_text().size() / 16);
      return a.as_text() == b.as_text();
    case Kind::dict:
      return a.address() == b.address() || equal_dicts(a.as_dict(), b.as_dict(), budget, depth);
    case Kind::sequence: {
      const Sequence& x = a.as_sequence();
      const Sequence& y = b.as_sequence();
      if (&x == &y) return true;
      if (x.kind != y.kind || x.kind == SequenceKind::iterator || x.items.size() != y.items.size())
        return false;
      for (std::size_t i = 0; i < x.items.size(); ++i) {
        if (!equal(x.items[i], y.items[i], budget, depth + 1)) return false;
      }
      return true;
    }
    case Kind::callable:
      return a.address() == b.address() ||
             (a.as_callable().native != nullptr && a.as_callable().native == b.as_callable().native &&
              a.as_callable().self.address() == b.as_callable().self.address());
    default:
      return a.address() == b.address();
  }
}

std::optional<int> order(Value a, Value b, Budget& budget, int depth) {
  budget.spend(1);
  check_depth(depth);
  if (a.is_number() && b.is_number() && !a.is(Kind::big_integer) && !b.is(Kind::big_integer)) {
    return order_numbers(a, b);
  }
  if (a.is_string() && b.is_string()) {
    budget.spend(std::min(a.as_text().size(), b.as_text().size()) / 16);
    const int sign = a.as_text().compare(b.as_text());
    return sign < 0 ? -1 : sign > 0 ? 1 : 0;
  }
  if (is_ordered_sequence(a) && is_ordered_sequence(b) && a.as_sequence().kind == b.as_sequence().kind) {
    const auto& x = a.as_sequence().items;
    const auto& y = b.as_sequence().items;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal(x[i], y[i], budget, depth + 1)) return order(x[i], y[i], budget, depth + 1);
    }
    return x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
  }
  fail_operands("<", a, b);
}

bool contains(Runtime& runtime, Value container, Value item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      fail_template("'in <string>' requires a string as left operand, not " + std::string(type_name(item)));
    }
    return find_text(runtime, container.as_text(), item.as_text(), 0) != std::string_view::npos;
  }
  if (container.is(Kind::dict)) return find_key(container.as_dict(), item, runtime.budget) != nullptr;
  for (const Value& candidate : runtime.iterate(container)) {
    if (equal(candidate, item, runtime.budget)) return true;
  }
  return false;
}

Value arithmetic(Runtime& runtime, Operator op, Value a, Value b) {
  if (a.is_number() && b.is_number() && !a.is(Kind::big_integer) && !b.is(Kind::big_integer)) {
    if (a.is_int() && b.is_int()) return integer_arithmetic(op, a.as_int(), b.as_int());
    return real_arithmetic(op, to_real(a), to_real(b));
  }
  if (op == Operator::add) return concatenate(runtime, a, b);
  if (op == Operator::multiply) {
    const auto repeats = [](Value v) { return v.is_string() || is_ordered_sequence(v); };
    if (repeats(a) && b.is_int()) return repeat(runtime, a, b.as_int());
    if (a.is_int() && repeats(b)) return repeat(runtime, b, a.as_int());
  }
  if (op == Operator::modulo && a.is_string()) return format_percent(runtime, a.as_text(), b);
  fail_operands(symbol(op), a, b);
}

bool compare(Runtime& runtime, Operator op, Value a, Value b) {
  switch (op) {
    case Operator::equal:
      return equal(a, b, runtime.budget);
    case Operator::not_equal:
      return !equal(a, b, runtime.budget);
    case Operator::in:
      return contains(runtime, b, a);
    case Operator::not_in:
      return !contains(runtime, b, a);
    default:
      break;
  }
  const std::optional<int> sign = order(a, b, runtime.budget);
  if (!sign) return false;
  switch (op) {
    case Operator::less:
      return *sign < 0;
    case Operator::less_equal:
      return *sign <= 0;
    case Operator::greater:
      return *sign > 0;
    default:
      return *sign >= 0;
  }
}

Value negate(Value value) {
  if (value.is(Kind::real)) return Value::real(-value.as_real());
  if (!value.is_int()) {
    if (value.is_undefined()) fail_undefined(value);
    fail_template("bad operand type for unary -: '" + std::string(type_name(value)) + "'");
  }
  if (value.as_int() == std::numeric_limits<std::int64_t>::min()) fail_overflow();
  return Value::integer(-value.as_int());
}

Value positive(Value value) {
  if (value.is(Kind::real)) return value;
  if (value.is_int()) return Value::integer(value.as_int());
  if (value.is_undefined()) fail_undefined(value);
  fail_template("bad operand type for unary +: '" + std::string(type_name(value)) + "'");
}

}  // namespace flyball::text::jinja
