#include "backends/text/jinja/runtime.hpp"

#include "backends/text/jinja/operators.hpp"
#include "backends/text/jinja/unicode.hpp"

namespace flyball::text::jinja {

std::span<const Value> Runtime::iterate(Value value) {
  switch (value.kind()) {
    case Kind::undefined:
      return {};
    case Kind::sequence: {
      Sequence& sequence = value.as_sequence();
      std::span<const Value> items = sequence.items;
      if (sequence.kind == SequenceKind::iterator) {
        items = items.subspan(sequence.next);
        sequence.next = sequence.items.size();
      }
      return items;
    }
    case Kind::dict: {
      std::vector<Value> keys;
      budget.spend(value.as_dict().entries.size());
      for (const auto& entry : value.as_dict().entries) keys.push_back(entry.first);
      return heap.list(std::move(keys)).as_sequence().items;
    }
    case Kind::string: {
      const std::string_view text = value.as_text();
      std::vector<Value> characters;
      budget.spend(text.size());
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t start = at;
        next_code_point(text, at);
        characters.push_back(Value::string(text.substr(start, at - start), value.is_markup()));
      }
      return heap.list(std::move(characters)).as_sequence().items;
    }
    default:
      fail_template("'" + std::string(type_name(value)) + "' object is not iterable");
  }
}

Value Runtime::copy_text(std::string_view text) {
  budget.spend_bytes(text.size());
  return heap.text(std::string(text));
}

void TextBuilder::append_repeated(std::string_view text, std::size_t times) {
  if (text.empty() || times == 0) return;
  if (times > (most_ - text_.size()) / text.size()) too_long();
  runtime_->budget.spend_bytes(text.size() * times);
  std::vector<TextSpan> written;
  runtime_->origins.copy(text, 0, written);
  if (written == std::vector{TextSpan{0, text.size()}})
    append_span(written_, {text_.size(), text_.size() + text.size() * times});
  text_.reserve(text_.size() + text.size() * times);
  for (std::size_t i = 0; i < times; ++i) text_.append(text);
}

void TextBuilder::too_long() const {
  if (most_ < runtime_->output_bytes)
    throw Failure{ErrorCode::context_length_exceeded,
                  "the chat template writes more than " + std::to_string(most_) + " bytes"};
  fail_budget("the chat template builds a text longer than " + std::to_string(runtime_->output_bytes) +
              " bytes");
}

Bound::Bound(std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> parameters, std::size_t required)
    : function_(function) {
  if (arguments.positional.size() > parameters.size()) {
    fail_template(std::string(function) + "() takes at most " + std::to_string(parameters.size()) +
                  " arguments, not " + std::to_string(arguments.positional.size()));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    values_[i] = arguments.positional[i];
    given_[i] = true;
  }
  for (const auto& [name, value] : arguments.keyword) {
    std::size_t i = 0;
    for (const std::string_view parameter : parameters) {
      if (parameter == name) break;
      ++i;
    }
    if (i == parameters.size()) {
      fail_template(std::string(function) + "() has no argument '" + std::string(name) + "'");
    }
    if (given_[i]) fail_template(std::string(function) + "() got '" + std::string(name) + "' twice");
    values_[i] = value;
    given_[i] = true;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (!given_[i]) {
      fail_template(std::string(function) + "() lacks its argument '" + std::string(parameters.begin()[i]) +
                    "'");
    }
  }
}

bool Bound::truth_or(std::size_t i, bool fallback) const noexcept {
  return given_[i] ? truth(values_[i]) : fallback;
}

std::int64_t Bound::int_or(std::size_t i, std::int64_t fallback) const {
  if (!given_[i]) return fallback;
  if (values_[i].is_undefined()) fail_undefined(values_[i]);
  if (!values_[i].is_int()) {
    fail_template(std::string(function_) + "() wants an int, not '" + std::string(type_name(values_[i])) +
                  "'");
  }
  return values_[i].as_int();
}

std::string_view Bound::text(std::size_t i) const {
  if (values_[i].is_undefined()) fail_undefined(values_[i]);
  if (!values_[i].is_string()) {
    fail_template(std::string(function_) + "() wants a string, not '" + std::string(type_name(values_[i])) +
                  "'");
  }
  return values_[i].as_text();
}

std::string_view Bound::text_or(std::size_t i, std::string_view fallback) const {
  return given_[i] ? text(i) : fallback;
}

}  // namespace flyball::text::jinja
