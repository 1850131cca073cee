// Filters on text and numbers. Parameters and defaults are those of Jinja2 3.1's built-in filters.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>

#include "backends/text/jinja/filters.hpp"
#include "backends/text/jinja/format.hpp"
#include "backends/text/jinja/json.hpp"
#include "backends/text/jinja/letter_case.hpp"
#include "backends/text/jinja/operators.hpp"
#include "backends/text/jinja/unicode.hpp"

namespace flyball::text::jinja {
namespace {

Value trim_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("trim", arguments, {"chars"}, 0);
  const std::string_view text = text_of(runtime, self);
  runtime.budget.spend_bytes(text.size());
  if (bound.absent(0)) return Value::string(strip(text), self.is_markup());
  runtime.budget.spend((text.size() / 16 + 1) * (bound.text(0).size() / 16 + 1));
  return Value::string(strip(text, bound.text(0), Side::both), self.is_markup());
}

Value replace_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  const std::int64_t count = bound.absent(2) ? -1 : bound.int_or(2, -1);
  return replace_text(runtime, text_of(runtime, self), text_of(runtime, bound[0]), text_of(runtime, bound[1]),
                      count);
}

Value string_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("string", arguments, {}, 0);
  return self.is_string() ? self : Value::string(text_of(runtime, self));
}

Value safe_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("safe", arguments, {}, 0);
  return Value::string(text_of(runtime, self), true);
}

Value escape_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("escape", arguments, {}, 0);
  if (self.is_markup()) return self;
  TextBuilder out(runtime);
  append_escaped(out, text_of(runtime, self));
  return out.take_value(true);
}

Value forceescape_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("forceescape", arguments, {}, 0);
  TextBuilder out(runtime);
  append_escaped(out, text_of(runtime, self));
  return out.take_value(true);
}

Value indent_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("indent", arguments, {"width", "first", "blank"}, 0);
  TextBuilder indention(runtime);
  if (bound.has(0) && bound[0].is_string()) {
    indention.append(bound[0].as_text());
  } else {
    indention.append_repeated(" ", static_cast<std::size_t>(std::max<std::int64_t>(0, bound.int_or(0, 4))));
  }
  const std::string_view prefix = indention.take_value().as_text();
  const bool blank = bound.truth_or(2, false);
  const std::string_view text = text_of(runtime, self);
  std::vector<std::string_view> lines = lines_of(runtime, text, false);
  const auto end_of = [&](std::string_view line) {
    return static_cast<std::size_t>(line.data() - text.data()) + line.size();
  };
  // A newline at the end stays: what follows it is a line, too.
  if (lines.empty() || (end_of(lines.back()) < text.size() && !text.ends_with('\r')))
    lines.push_back(text.substr(text.size()));
  TextBuilder out(runtime);
  OwnParts own(runtime.origins, text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    if (i > 0) {
      const std::size_t broken = end_of(lines[i - 1]);
      out.append_made("\n", own.cover(broken, end_of(line) - line.size()));
    }
    if (i == 0 ? bound.truth_or(1, false) : blank || !line.empty()) out.append(prefix);
    out.append(line);
  }
  return out.take_value(self.is_markup());
}

Value center_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("center", arguments, {"width"}, 0);
  return pad_text(runtime, text_of(runtime, self), bound.int_or(0, 80), " ", Align::center);
}

Value truncate_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("truncate", arguments, {"length", "killwords", "end", "leeway"}, 0);
  const std::string_view text = self.is_string() ? self.as_text() : text_of(runtime, self);
  const std::string_view end = bound.text_or(2, "...");
  const std::int64_t limit = bound.int_or(0, 255);
  const std::int64_t leeway = bound.absent(3) ? 5 : bound.int_or(3, 5);
  runtime.budget.spend_bytes(text.size() + end.size());
  const auto end_size = static_cast<std::int64_t>(length(end));
  if (limit < end_size) fail_template("truncate() wants a length of at least its end's");
  if (leeway < 0) fail_template("truncate() wants a leeway of at least 0");
  const auto size = static_cast<std::int64_t>(length(text));
  if (size <= limit || size - limit <= leeway) return Value::string(text, self.is_markup());
  std::string_view kept = text.substr(0, offset_of(text, static_cast<std::size_t>(limit - end_size)));
  if (!bound.truth_or(1, false)) kept = kept.substr(0, std::min(kept.rfind(' '), kept.size()));
  TextBuilder out(runtime);
  out.append(kept);
  out.append(end);
  return out.take_value(self.is_markup());
}

Value wordcount_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("wordcount", arguments, {}, 0);
  const std::string_view text = text_of(runtime, self);
  runtime.budget.spend_bytes(text.size());
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const bool word = is_word(next_code_point(text, at));
    words += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value::integer(words);
}

Value format_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  if (!arguments.keyword.empty() && !arguments.positional.empty()) {
    fail_template("format() takes positional or named arguments, not both");
  }
  if (!arguments.keyword.empty()) {
    Dict& named = runtime.heap.dict();
    for (const auto& [name, value] : arguments.keyword) runtime.heap.set(named, Value::string(name), value);
    return format_percent(runtime, text_of(runtime, self), Value::dict(&named));
  }
  std::vector<Value> positional = arguments.positional;
  return format_percent(runtime, text_of(runtime, self), runtime.heap.tuple(std::move(positional)));
}

// Python's float(text).
std::optional<double> parse_real(std::string_view text) {
  std::string digits;
  for (const char c : strip(text)) {
    if (c != '_') digits.push_back(c);
  }
  std::string_view view = digits;
  if (view.starts_with('+')) view.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (end != view.data() + view.size() || view.empty() || view.starts_with('+')) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::strtod(digits.c_str(), nullptr);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

// Python's int(text, base).
std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base) {
  std::string digits;
  for (const char c : strip(text)) {
    if (c != '_') digits.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
  }
  std::string_view view = digits;
  const bool negative = view.starts_with('-');
  if (negative || view.starts_with('+')) view.remove_prefix(1);
  for (const auto& [prefix, radix] : {std::pair<std::string_view, int>{"0x", 16}, {"0o", 8}, {"0b", 2}}) {
    if (base == radix && view.starts_with(prefix)) view.remove_prefix(2);
  }
  std::int64_t value = 0;
  const auto [end, error] =
      std::from_chars(view.data(), view.data() + view.size(), value, static_cast<int>(base));
  if (error == std::errc::result_out_of_range)
    fail_template("the integer " + digits.substr(0, 40) + " is out of range");
  if (view.empty() || view.starts_with('-') || error != std::errc{} || end != view.data() + view.size()) {
    return std::nullopt;
  }
  return negative ? -value : value;
}

Value truncated(double value, Value fallback) {
  if (!std::isfinite(value)) return fallback;
  if (std::fabs(value) >= 9.2e18) fail_template("a float is out of range for an integer");
  return Value::integer(static_cast<std::int64_t>(value));
}

Value int_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("int", arguments, {"default", "base"}, 0);
  const Value fallback = bound.value_or(0, Value::integer(0));
  const std::int64_t base = bound.int_or(1, 10);
  if (base < 2 || base > 36) fail_template("int() wants a base from 2 to 36");
  if (self.is_undefined()) fail_undefined(self);
  if (self.is_int()) return Value::integer(self.as_int());
  if (self.is(Kind::big_integer)) return self;
  if (self.is(Kind::real)) return truncated(self.as_real(), fallback);
  if (!self.is_string()) return fallback;
  runtime.budget.spend_bytes(self.as_text().size());
  if (const auto whole = parse_integer(self.as_text(), base)) return Value::integer(*whole);
  const auto real = parse_real(self.as_text());
  return real ? truncated(*real, fallback) : fallback;
}

Value float_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("float", arguments, {"default"}, 0);
  const Value fallback = bound.value_or(0, Value::real(0));
  if (self.is_undefined()) fail_undefined(self);
  if (self.is_int()) return Value::real(static_cast<double>(self.as_int()));
  if (self.is(Kind::real)) return self;
  if (!self.is_string() && !self.is(Kind::big_integer)) return fallback;
  runtime.budget.spend_bytes(self.as_text().size());
  const auto real = parse_real(self.as_text());
  return real ? Value::real(*real) : fallback;
}

Value abs_filter(Runtime&, Value self, const Arguments& arguments) {
  const Bound bound("abs", arguments, {}, 0);
  if (self.is(Kind::real)) return Value::real(std::fabs(self.as_real()));
  const Value value = positive(self);
  return value.as_int() < 0 ? negate(value) : value;
}

Value round_filter(Runtime&, Value self, const Arguments& arguments) {
  const Bound bound("round", arguments, {"precision", "method"}, 0);
  const std::int64_t precision = bound.int_or(0, 0);
  const std::string_view method = bound.text_or(1, "common");
  if (method != "common" && method != "ceil" && method != "floor") {
    fail_template("round() wants a method of common, ceil or floor");
  }
  if (precision < -300 || precision > 300) fail_template("round() wants a precision within 300 digits");
  if (method == "common" && self.is_int() && precision >= 0) return positive(self);
  const Value value = positive(self);
  const double real = value.is(Kind::real) ? value.as_real() : static_cast<double>(value.as_int());
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return Value::real(std::ceil(real * scale) / scale);
  if (method == "floor") return Value::real(std::floor(real * scale) / scale);
  if (precision < 0) {
    const double rounded = std::nearbyint(real * scale) / scale;
    if (!self.is_int()) return Value::real(rounded);
    if (std::fabs(rounded) >= 9.2e18) fail_template("a rounded integer is out of range");
    return Value::integer(static_cast<std::int64_t>(rounded));
  }
  // printf rounds the exact binary value half to even, as Python does.
  std::array<char, 700> text{};
  std::snprintf(text.data(), text.size(), "%.*f", static_cast<int>(precision), real);
  return Value::real(std::strtod(text.data(), nullptr));
}

Value default_filter(Runtime&, Value self, const Arguments& arguments) {
  const Bound bound("default", arguments, {"default_value", "boolean"}, 0);
  const bool replaces = self.is_undefined() || (bound.truth_or(1, false) && !truth(self));
  return replaces ? bound.value_or(0, Value::string("")) : self;
}

constexpr NamedNative kFilters[] = {
    {"abs", abs_filter},
    {"capitalize", capitalized_text},
    {"center", center_filter},
    {"d", default_filter},
    {"default", default_filter},
    {"e", escape_filter},
    {"escape", escape_filter},
    {"float", float_filter},
    {"forceescape", forceescape_filter},
    {"format", format_filter},
    {"indent", indent_filter},
    {"int", int_filter},
    {"lower", lower_text},
    {"replace", replace_filter},
    {"round", round_filter},
    {"safe", safe_filter},
    {"string", string_filter},
    {"title", titled_words},
    {"tojson", to_json},
    {"trim", trim_filter},
    {"truncate", truncate_filter},
    {"upper", upper_text},
    {"wordcount", wordcount_filter},
};

}  // namespace

std::span<const NamedNative> text_filters() noexcept {
  return kFilters;
}

}  // namespace flyball::text::jinja
