// What filters, tests, methods and global functions are given: the heap, the budget, and the way back into
// the interpreter. Also the binding of call arguments to parameters and the bounded building of text.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "backends/text/jinja/origins.hpp"
#include "backends/text/jinja/value.hpp"

namespace flyball::text::jinja {

struct Runtime {
  Budget budget;
  Heap heap{budget};
  Origins origins;
  std::size_t output_bytes;  // limit of every text that is built
  std::int64_t now;          // seconds since the epoch

  Runtime(std::uint64_t fuel, std::size_t output_limit, std::int64_t seconds)
      : budget(fuel), output_bytes(output_limit), now(seconds) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime() = default;

  virtual Value call(Value callee, Arguments&& arguments) = 0;

  // The items that a `for` over the value sees. An iterator is used up by it. The span stays valid for the
  // render.
  std::span<const Value> iterate(Value value);
  Value copy_text(std::string_view text);  // into the heap, paid for
};

// Text that grows under the budget and a limit, and knows which of it the template wrote.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& runtime) : TextBuilder(runtime, runtime.output_bytes) {}
  // most: where it is less than the limit of every text, a longer one fails with context_length_exceeded.
  TextBuilder(Runtime& runtime, std::size_t most)
      : runtime_(&runtime), most_(most < runtime.output_bytes ? most : runtime.output_bytes) {}
  void append(std::string_view text) {
    pay(text.size());
    if (const std::size_t parts = runtime_->origins.copy(text, text_.size(), written_); parts > 1)
      runtime_->budget.spend(parts);
    text_.append(text);
  }
  void append(char byte) {
    pay(1);
    text_.push_back(byte);
  }
  // A text that was made of another one, which the template wrote or not.
  void append_made(std::string_view text, bool is_own) {
    pay(text.size());
    if (is_own && !text.empty()) append_span(written_, {text_.size(), text_.size() + text.size()});
    text_.append(text);
  }
  // Before the allocation: refuses what the limit or the budget does not allow. A text that the template
  // wrote in part counts as the client's.
  void append_repeated(std::string_view text, std::size_t times);
  std::string take() { return std::move(text_); }
  Value take_value(bool markup = false) {
    const Value made = runtime_->heap.text(std::move(text_), markup);
    runtime_->origins.add(made.as_text(), std::move(written_));
    return made;
  }
  std::vector<TextSpan> take_written() { return std::move(written_); }
  std::string_view view() const noexcept { return text_; }

 private:
  void pay(std::size_t bytes) {
    if (bytes > most_ - text_.size()) too_long();
    unpaid_ += bytes;
    if (unpaid_ >= 16) {
      runtime_->budget.spend(unpaid_ / 16);
      unpaid_ %= 16;
    }
  }
  [[noreturn]] void too_long() const;
  Runtime* runtime_;
  std::size_t most_;
  std::string text_;
  std::vector<TextSpan> written_;  // by the template
  std::size_t unpaid_ = 0;
};

// Arguments bound to named parameters, as a Python signature would; fails on unknown, double, missing or
// extra ones.
class Bound {
 public:
  static constexpr std::size_t kMost = 6;
  Bound(std::string_view function, const Arguments& arguments,
        std::initializer_list<std::string_view> parameters, std::size_t required);
  bool has(std::size_t i) const noexcept { return given_[i]; }
  Value operator[](std::size_t i) const noexcept { return values_[i]; }
  Value value_or(std::size_t i, Value fallback) const noexcept { return given_[i] ? values_[i] : fallback; }
  bool truth_or(std::size_t i, bool fallback) const noexcept;
  std::int64_t int_or(std::size_t i, std::int64_t fallback) const;  // fails unless an int
  std::string_view text(std::size_t i) const;                       // fails unless a string
  std::string_view text_or(std::size_t i, std::string_view fallback) const;
  // The argument is left out or none.
  bool absent(std::size_t i) const noexcept { return !given_[i] || values_[i].is_none(); }

 private:
  std::string_view function_;
  std::array<Value, kMost> values_{};
  std::array<bool, kMost> given_{};
};

// str(value) and repr(value).
std::string_view text_of(Runtime& runtime, Value value);  // no copy for strings
void append_text(Runtime& runtime, TextBuilder& out, Value value);
void append_repr(Runtime& runtime, TextBuilder& out, Value value, int depth = 0);
std::string real_text(double value);  // repr of a float

// Lookup by name; null for names nobody knows.
Native find_filter(std::string_view name) noexcept;
Native find_test(std::string_view name) noexcept;
Native find_global(std::string_view name) noexcept;
// Methods of str, dict, list and tuple, loop objects and cyclers that a template may call.
Native find_method(Value object, std::string_view name) noexcept;

}  // namespace flyball::text::jinja
