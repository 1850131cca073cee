#include "backends/text/jinja/format.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "backends/text/jinja/operators.hpp"
#include "backends/text/jinja/unicode.hpp"

namespace flyball::text::jinja {
namespace {

constexpr std::int64_t kPrecision = 60;  // of a formatted number; more digits than a double has

// One %-directive.
struct Directive {
  bool minus = false, plus = false, space = false, zero = false, alternate = false;
  std::int64_t width = 0, precision = -1;
  char type = 's';
};

std::string format_number(const Directive& directive, Value value) {
  std::string format = "%";
  if (directive.plus) format += '+';
  if (directive.space) format += ' ';
  if (directive.alternate) format += '#';
  std::array<char, 512> out{};
  const auto precision = static_cast<int>(std::min(directive.precision, kPrecision));
  if (directive.type == 'd' || directive.type == 'i' || directive.type == 'u') {
    const auto whole = value.is(Kind::real) ? static_cast<long long>(value.as_real()) : value.as_int();
    std::snprintf(out.data(), out.size(), (format + ".*lld").c_str(), precision,
                  static_cast<long long>(whole));
  } else if (directive.type == 'x' || directive.type == 'X' || directive.type == 'o') {
    const std::int64_t number = value.as_int();
    const auto size =
        number < 0 ? 0 - static_cast<unsigned long long>(number) : static_cast<unsigned long long>(number);
    std::snprintf(
        out.data(), out.size(),
        (number < 0 ? "-%.*ll" + std::string(1, directive.type) : "%.*ll" + std::string(1, directive.type))
            .c_str(),
        precision, size);
  } else {
    const double real = value.is(Kind::real) ? value.as_real() : static_cast<double>(value.as_int());
    std::snprintf(out.data(), out.size(), (format + ".*" + directive.type).c_str(),
                  precision < 0 ? 6 : precision, real);
  }
  return out.data();
}

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, std::string_view format, Value value)
      : runtime_(runtime), out_(runtime), format_(format), value_(value) {
    is_tuple_ = value.is(Kind::sequence) && value.as_sequence().kind == SequenceKind::tuple;
  }

  Value run() {
    while (at_ < format_.size()) {
      const std::size_t percent = std::min(format_.find('%', at_), format_.size());
      out_.append(format_.substr(at_, percent - at_));
      at_ = percent + 1;
      if (percent < format_.size()) directive();
    }
    const bool all_used =
        is_tuple_ ? used_ == value_.as_sequence().items.size() : used_ > 0 || value_.is(Kind::dict);
    if (!all_used) fail_template("not all arguments converted during string formatting");
    return out_.take_value();
  }

 private:
  char take() {
    if (at_ >= format_.size()) fail_template("incomplete format");
    return format_[at_++];
  }
  std::int64_t number() {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(format_.data() + at_, format_.data() + format_.size(), value);
    if (error == std::errc::result_out_of_range) fail_template("a format's width is out of range");
    at_ = static_cast<std::size_t>(end - format_.data());
    return value;
  }
  Value argument() {
    if (is_tuple_) {
      if (used_ >= value_.as_sequence().items.size()) fail_template("not enough arguments for format string");
      return value_.as_sequence().items[used_++];
    }
    if (used_++ > 0) fail_template("not enough arguments for format string");
    return value_;
  }

  void directive() {
    std::optional<Value> named;
    if (at_ < format_.size() && format_[at_] == '(') {
      const std::size_t close = format_.find(')', at_);
      if (close == std::string_view::npos || !value_.is(Kind::dict))
        fail_template("format requires a mapping");
      runtime_.budget.spend_bytes(close - at_);
      const Value* found =
          find_key(value_.as_dict(), format_.substr(at_ + 1, close - at_ - 1), runtime_.budget);
      if (found == nullptr) fail_template("the format names a missing key");
      named = *found;
      at_ = close + 1;
    }
    Directive made;
    char c = take();
    for (; std::string_view("-+ 0#").find(c) != std::string_view::npos; c = take()) {
      made.minus |= c == '-', made.plus |= c == '+', made.space |= c == ' ', made.zero |= c == '0';
      made.alternate |= c == '#';
    }
    if (c >= '0' && c <= '9') {
      --at_;
      made.width = number();
      c = take();
    }
    if (c == '.') {
      made.precision = at_ < format_.size() && format_[at_] >= '0' && format_[at_] <= '9' ? number() : 0;
      c = take();
    }
    if (c == '%') return out_.append(format_.substr(at_ - 1, 1));
    made.type = c;
    emit(made, named ? *named : argument());
  }

  void emit(const Directive& directive, Value value) {
    std::string_view text;
    const bool is_text =
        directive.type == 's' || directive.type == 'r' || directive.type == 'a' || directive.type == 'c';
    if (is_text) {
      text = text_argument(directive, value);
      if (directive.precision >= 0)
        text = text.substr(0, offset_of(text, static_cast<std::size_t>(directive.precision)));
    } else {
      if (std::string_view("diuxXoeEfFgG").find(directive.type) == std::string_view::npos) {
        fail_template("unsupported format character '" + std::string(1, directive.type) + "'");
      }
      const bool takes_real = std::string_view("xXo").find(directive.type) == std::string_view::npos;
      if (value.is_undefined()) fail_undefined(value);
      if (!value.is_number() || value.is(Kind::big_integer) || (value.is(Kind::real) && !takes_real)) {
        fail_template("%" + std::string(1, directive.type) + " format: a number is required, not " +
                      std::string(type_name(value)));
      }
      if (value.is(Kind::real) && std::string_view("diu").find(directive.type) != std::string_view::npos &&
          !(value.as_real() > -9e18 && value.as_real() < 9e18)) {
        fail_template("a float is out of range for an integer format");
      }
      text = runtime_.heap.text(format_number(directive, value)).as_text();
    }
    const auto size = static_cast<std::int64_t>(length(text));
    const auto fill = static_cast<std::size_t>(std::max<std::int64_t>(0, directive.width - size));
    if (directive.zero && !directive.minus && !is_text) {
      const std::size_t sign =
          !text.empty() && std::string_view("+- ").find(text[0]) != std::string_view::npos ? 1 : 0;
      out_.append(text.substr(0, sign));
      out_.append_repeated("0", fill);
      return out_.append(text.substr(sign));
    }
    if (!directive.minus) out_.append_repeated(" ", fill);
    out_.append(text);
    if (directive.minus) out_.append_repeated(" ", fill);
  }

  std::string_view text_argument(const Directive& directive, Value value) {
    if (directive.type == 's') return text_of(runtime_, value);
    TextBuilder text(runtime_);
    if (directive.type != 'c') {
      append_repr(runtime_, text, value);
    } else if (value.is_string() && length(value.as_text()) == 1) {
      text.append(value.as_text());
    } else if (value.is_int() && value.as_int() >= 0 && value.as_int() < 0xD800) {
      std::string one;
      append_utf8(one, static_cast<char32_t>(value.as_int()));
      text.append(one);
    } else {
      fail_template("%c requires int or char");
    }
    return text.take_value().as_text();
  }

  Runtime& runtime_;
  TextBuilder out_;
  std::string_view format_;
  Value value_;
  bool is_tuple_ = false;
  std::size_t at_ = 0, used_ = 0;
};

// The value that "{name.attribute[item]}" names.
Value resolve_field(Runtime& runtime, std::string_view field, const Arguments& arguments,
                    std::size_t& automatic) {
  const std::size_t end = std::min(field.find_first_of(".["), field.size());
  const std::string_view first = field.substr(0, end);
  std::size_t position = automatic;
  const auto parsed = std::from_chars(first.data(), first.data() + first.size(), position);
  Value value;
  if (first.empty() || (parsed.ec == std::errc{} && parsed.ptr == first.data() + first.size())) {
    if (first.empty()) ++automatic;
    if (position >= arguments.positional.size())
      fail_template("format() lacks positional argument " + std::to_string(position));
    value = arguments.positional[position];
  } else {
    runtime.budget.spend(arguments.keyword.size() * (1 + first.size() / 16));
    const auto found =
        std::ranges::find(arguments.keyword, first, &std::pair<std::string_view, Value>::first);
    if (found == arguments.keyword.end())
      fail_template("format() lacks argument '" + std::string(first) + "'");
    value = found->second;
  }
  std::string_view rest = field.substr(end);
  while (!rest.empty()) {
    const bool is_item = rest[0] == '[';
    const std::size_t stop = is_item ? rest.find(']') : std::min(rest.find_first_of(".[", 1), rest.size());
    if (stop == std::string_view::npos) fail_template("expected ']' in a format field");
    const std::string_view name = rest.substr(1, stop - 1);
    std::int64_t index = 0;
    const auto number = std::from_chars(name.data(), name.data() + name.size(), index);
    if (!is_item) {
      value = attribute(runtime, value, name);
    } else if (number.ec == std::errc{} && number.ptr == name.data() + name.size()) {
      value = item(runtime, value, Value::integer(index));
    } else {
      value = item(runtime, value, Value::string(name));
    }
    rest.remove_prefix(is_item ? stop + 1 : stop);
  }
  return value;
}

}  // namespace

std::size_t find_text(Runtime& runtime, std::string_view text, std::string_view needle, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  runtime.budget.spend_bytes(needle.size());
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  const std::size_t at = found == nullptr
                             ? std::string_view::npos
                             : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
  runtime.budget.spend_bytes(std::min(at, text.size()) - from);
  return at;
}

void append_escaped(TextBuilder& out, std::string_view text) {
  constexpr std::string_view kFrom = "&<>\"'";
  constexpr std::array<std::string_view, 5> kTo{"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
  while (!text.empty()) {
    const std::size_t plain = std::min(text.find_first_of(kFrom), text.size());
    out.append(text.substr(0, plain));
    if (plain == text.size()) return;
    out.append(kTo[kFrom.find(text[plain])]);
    text.remove_prefix(plain + 1);
  }
}

Value format_percent(Runtime& runtime, std::string_view format, Value value) {
  return PercentFormatter(runtime, format, value).run();
}

Value format_braces(Runtime& runtime, std::string_view format, const Arguments& arguments) {
  runtime.budget.spend_bytes(format.size());
  TextBuilder out(runtime);
  std::size_t automatic = 0;
  for (std::size_t at = 0; at < format.size(); ++at) {
    const std::size_t brace = std::min(format.find_first_of("{}", at), format.size());
    out.append(format.substr(at, brace - at));
    at = brace;
    if (at == format.size()) break;
    const char c = format[at];
    if (at + 1 < format.size() && format[at + 1] == c) {
      out.append(format.substr(at, 1));
      ++at;
      continue;
    }
    if (c == '}') fail_template("single '}' encountered in format string");
    const std::size_t close = format.find('}', at);
    if (close == std::string_view::npos) fail_template("expected '}' before end of string");
    std::string_view field = format.substr(at + 1, close - at - 1);
    if (field.find_first_of(":{") != std::string_view::npos) fail_template("format specs are not supported");
    bool repr = false;
    if (field.size() >= 2 && field[field.size() - 2] == '!') {
      repr = field.back() == 'r';
      if (!repr && field.back() != 's') fail_template("unknown conversion in a format field");
      field.remove_suffix(2);
    }
    const Value value = resolve_field(runtime, field, arguments, automatic);
    if (repr) {
      append_repr(runtime, out, value);
    } else {
      append_text(runtime, out, value);
    }
    at = close;
  }
  return out.take_value();
}

Value replace_text(Runtime& runtime, std::string_view text, std::string_view from, std::string_view to,
                   std::int64_t count) {
  TextBuilder out(runtime);
  std::size_t at = 0;
  while (count != 0) {
    if (from.empty()) {
      out.append(to);
      --count;
      if (at >= text.size()) break;
      const std::size_t size = offset_of(text.substr(at), 1);
      out.append(text.substr(at, size));
      at += size;
      continue;
    }
    const std::size_t found = find_text(runtime, text, from, at);
    if (found == std::string_view::npos) break;
    out.append(text.substr(at, found - at));
    out.append(to);
    at = found + from.size();
    --count;
  }
  if (at == 0 && out.view().empty()) return Value::string(text);
  out.append(text.substr(at));
  return out.take_value();
}

Value pad_text(Runtime& runtime, std::string_view text, std::int64_t width, std::string_view fill,
               Align align) {
  runtime.budget.spend_bytes(text.size());
  const auto size = static_cast<std::int64_t>(length(text));
  if (width <= size) return Value::string(text);
  const std::int64_t room = width - size;
  // Python's center puts the odd one left when the width is odd.
  const std::int64_t left = align == Align::left    ? 0
                            : align == Align::right ? room
                                                    : room / 2 + (room & width & 1);
  TextBuilder out(runtime);
  out.append_repeated(fill, static_cast<std::size_t>(left));
  out.append(text);
  out.append_repeated(fill, static_cast<std::size_t>(room - left));
  return out.take_value();
}

std::vector<std::string_view> lines_of(Runtime& runtime, std::string_view text, bool keep_ends) {
  runtime.budget.spend_bytes(text.size());
  std::vector<std::string_view> lines;
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at;
    const char32_t c = next_code_point(text, at);
    const bool breaks =
        (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!breaks) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    runtime.budget.spend(1);
    lines.push_back(text.substr(start, (keep_ends ? at : end) - start));
    start = at;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

}  // namespace flyball::text::jinja
