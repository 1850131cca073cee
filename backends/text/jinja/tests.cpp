// The tests behind `is`.
#include <string>

#include "backends/text/jinja/filters.hpp"
#include "backends/text/jinja/operators.hpp"
#include "backends/text/jinja/unicode.hpp"

namespace flyball::text::jinja {
namespace {

template <bool (*Check)(Value)>
Value simple(Runtime&, Value self, const Arguments& arguments) {
  const Bound bound("test", arguments, {}, 0);
  return Value::boolean(Check(self));
}

bool is_defined(Value v) {
  return !v.is_undefined();
}
bool is_undefined(Value v) {
  return v.is_undefined();
}
bool is_none(Value v) {
  return v.is_none();
}
bool is_string(Value v) {
  return v.is_string();
}
bool is_mapping(Value v) {
  return v.is(Kind::dict);
}
bool is_number(Value v) {
  return v.is_number();
}
bool is_boolean(Value v) {
  return v.is(Kind::boolean);
}
bool is_true(Value v) {
  return v.is(Kind::boolean) && v.as_bool();
}
bool is_false(Value v) {
  return v.is(Kind::boolean) && !v.as_bool();
}
bool is_integer(Value v) {
  return v.is(Kind::integer) || v.is(Kind::big_integer);
}
bool is_float(Value v) {
  return v.is(Kind::real);
}
bool is_escaped(Value v) {
  return v.is_markup();
}
bool is_iterable(Value v) {
  return v.is_undefined() || v.is_string() || v.is(Kind::dict) || v.is(Kind::sequence) || v.is(Kind::loop);
}
// Has a length and items by index; Jinja2's Undefined passes.
bool is_sequence(Value v) {
  if (v.is(Kind::sequence)) {
    const SequenceKind kind = v.as_sequence().kind;
    return kind == SequenceKind::list || kind == SequenceKind::tuple || kind == SequenceKind::range;
  }
  return v.is_undefined() || v.is_string() || v.is(Kind::dict);
}
bool is_callable(Value v) {
  return v.is_undefined() || v.is(Kind::callable) || v.is(Kind::joiner) || v.is(Kind::loop);
}

// All cased letters are of the case, and there is one.
template <bool (*Right)(char32_t), bool (*Wrong)(char32_t)>
Value has_case(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("test", arguments, {}, 0);
  const std::string_view text = text_of(runtime, self);
  runtime.budget.spend_bytes(text.size());
  bool found = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (Wrong(c)) return Value::boolean(false);
    found |= Right(c);
  }
  return Value::boolean(found);
}

Value remainder(Runtime& runtime, Value self, std::int64_t divisor) {
  return arithmetic(runtime, Operator::modulo, self, Value::integer(divisor));
}
Value odd_test(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("odd", arguments, {}, 0);
  return Value::boolean(equal(remainder(runtime, self, 2), Value::integer(1), runtime.budget));
}
Value even_test(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("even", arguments, {}, 0);
  return Value::boolean(equal(remainder(runtime, self, 2), Value::integer(0), runtime.budget));
}
Value divisibleby_test(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("divisibleby", arguments, {"num"}, 1);
  return Value::boolean(
      equal(arithmetic(runtime, Operator::modulo, self, bound[0]), Value::integer(0), runtime.budget));
}

template <Operator Op>
Value comparing(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("test", arguments, {"other"}, 1);
  return Value::boolean(compare(runtime, Op, self, bound[0]));
}

// Python's `is`: scalars are the same when equal and of one type, objects when they are one object.
Value sameas_test(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("sameas", arguments, {"other"}, 1);
  const Value other = bound[0];
  if (self.kind() != other.kind()) return Value::boolean(false);
  const bool is_object = self.is(Kind::sequence) || self.is(Kind::dict) || self.is(Kind::name_space);
  return Value::boolean(is_object ? self.address() == other.address() : equal(self, other, runtime.budget));
}

Value filter_test(Runtime&, Value self, const Arguments& arguments) {
  const Bound bound("filter", arguments, {}, 0);
  return Value::boolean(self.is_string() && find_filter(self.as_text()) != nullptr);
}
Value test_test(Runtime&, Value self, const Arguments& arguments) {
  const Bound bound("test", arguments, {}, 0);
  return Value::boolean(self.is_string() && find_test(self.as_text()) != nullptr);
}

constexpr NamedNative kTests[] = {
    {"!=", comparing<Operator::not_equal>},
    {"<", comparing<Operator::less>},
    {"<=", comparing<Operator::less_equal>},
    {"==", comparing<Operator::equal>},
    {">", comparing<Operator::greater>},
    {">=", comparing<Operator::greater_equal>},
    {"boolean", simple<is_boolean>},
    {"callable", simple<is_callable>},
    {"defined", simple<is_defined>},
    {"divisibleby", divisibleby_test},
    {"eq", comparing<Operator::equal>},
    {"equalto", comparing<Operator::equal>},
    {"escaped", simple<is_escaped>},
    {"even", even_test},
    {"false", simple<is_false>},
    {"filter", filter_test},
    {"float", simple<is_float>},
    {"ge", comparing<Operator::greater_equal>},
    {"greaterthan", comparing<Operator::greater>},
    {"gt", comparing<Operator::greater>},
    {"in", comparing<Operator::in>},
    {"integer", simple<is_integer>},
    {"iterable", simple<is_iterable>},
    {"le", comparing<Operator::less_equal>},
    {"lessthan", comparing<Operator::less>},
    {"lower", has_case<is_lower, is_upper>},
    {"lt", comparing<Operator::less>},
    {"mapping", simple<is_mapping>},
    {"ne", comparing<Operator::not_equal>},
    {"none", simple<is_none>},
    {"number", simple<is_number>},
    {"odd", odd_test},
    {"sameas", sameas_test},
    {"sequence", simple<is_sequence>},
    {"string", simple<is_string>},
    {"test", test_test},
    {"true", simple<is_true>},
    {"undefined", simple<is_undefined>},
    {"upper", has_case<is_upper, is_lower>},
};

}  // namespace

Native find_test(std::string_view name) noexcept {
  for (const auto& [known, native] : kTests) {
    if (known == name) return native;
  }
  return nullptr;
}

}  // namespace flyball::text::jinja
