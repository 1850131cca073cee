#include "backends/text/jinja/value.hpp"

#include "backends/text/jinja/operators.hpp"

namespace flyball::text::jinja {

Value Value::undefined(std::string_view name, Kind of) {
  Value value(Kind::undefined);
  value.detail_ = static_cast<std::uint8_t>(of);
  value.text_ = name.data();
  value.size_ = static_cast<std::uint32_t>(name.size());
  return value;
}

Value Value::boolean(bool value) {
  Value result(Kind::boolean);
  result.integer_ = value ? 1 : 0;
  return result;
}

Value Value::integer(std::int64_t value) {
  Value result(Kind::integer);
  result.integer_ = value;
  return result;
}

Value Value::big_integer(std::string_view digits) {
  Value result(Kind::big_integer);
  result.text_ = digits.data();
  result.size_ = static_cast<std::uint32_t>(digits.size());
  return result;
}

Value Value::real(double value) {
  Value result(Kind::real);
  result.real_ = value;
  return result;
}

Value Value::string(std::string_view text, bool markup) {
  Value result(Kind::string);
  result.detail_ = markup ? 1 : 0;
  result.text_ = text.data();
  result.size_ = static_cast<std::uint32_t>(text.size());
  return result;
}

const Value* Dict::find(std::string_view key) const noexcept {
  if (entries.size() > kIndexFrom) {
    const auto found = by_text.find(key);
    return found == by_text.end() ? nullptr : &entries[found->second].second;
  }
  for (const auto& [name, value] : entries) {
    if (name.is_string() && name.as_text() == key) return &value;
  }
  return nullptr;
}

Value Heap::text(std::string&& text, bool markup) {
  budget_->spend(1);
  return Value::string(texts_.emplace_back(std::move(text)), markup);
}

Value Heap::sequence(SequenceKind kind, std::vector<Value>&& items) {
  budget_->spend(1 + items.size());
  Sequence& made = sequences_.emplace_back();
  made.kind = kind;
  made.items = std::move(items);
  return Value::sequence(&made);
}

Dict& Heap::dict() {
  budget_->spend(1);
  return dicts_.emplace_back();
}

void Heap::set(Dict& dict, Value key, Value value) {
  budget_->spend(2);
  if (Value* slot = const_cast<Value*>(find_key(dict, key, *budget_))) {
    *slot = value;
    return;
  }
  dict.entries.emplace_back(key, value);
  const std::size_t size = dict.entries.size();
  if (size < Dict::kIndexFrom + 1) return;
  for (std::size_t i = size == Dict::kIndexFrom + 1 ? 0 : size - 1; i < size; ++i) {
    if (dict.entries[i].first.is_string()) {
      dict.by_text.emplace(dict.entries[i].first.as_text(), static_cast<std::uint32_t>(i));
    }
  }
}

Value Heap::bind(Native native, Value self, std::string_view name) {
  auto& made = make_callable();
  made.native = native;
  made.self = self;
  made.name = name;
  return Value::callable(&made);
}

Namespace& Heap::make_namespace() {
  budget_->spend(1);
  return namespaces_.emplace_back();
}
Callable& Heap::make_callable() {
  budget_->spend(1);
  return callables_.emplace_back();
}
Cycler& Heap::make_cycler() {
  budget_->spend(1);
  return cyclers_.emplace_back();
}
Joiner& Heap::make_joiner() {
  budget_->spend(1);
  return joiners_.emplace_back();
}

std::string_view type_name(Value value) noexcept {
  switch (value.kind()) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
    case Kind::big_integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return value.is_markup() ? "Markup" : "str";
    case Kind::dict:
      return "dict";
    case Kind::name_space:
      return "Namespace";
    case Kind::loop:
      return "LoopContext";
    case Kind::callable:
      return "function";
    case Kind::cycler:
      return "Cycler";
    case Kind::joiner:
      return "Joiner";
    case Kind::sequence:
      break;
  }
  switch (value.as_sequence().kind) {
    case SequenceKind::list:
      return "list";
    case SequenceKind::tuple:
      return "tuple";
    case SequenceKind::range:
      return "range";
    case SequenceKind::iterator:
      return "generator";
    case SequenceKind::keys:
      return "dict_keys";
    case SequenceKind::values:
      return "dict_values";
    case SequenceKind::items:
      return "dict_items";
  }
  return "object";
}

}  // namespace flyball::text::jinja
