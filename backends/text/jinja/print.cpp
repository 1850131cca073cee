// str() and repr() of values, as Python prints them.
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>

#include "backends/text/jinja/operators.hpp"
#include "backends/text/jinja/runtime.hpp"
#include "backends/text/jinja/unicode.hpp"

namespace flyball::text::jinja {
namespace {

void append_quoted(TextBuilder& out, std::string_view text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  out.append(quote);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const char32_t c = next_code_point(text, at);
    if (c == '\\' || c == static_cast<char32_t>(quote)) {
      out.append('\\');
      out.append(static_cast<char>(c));
    } else if (c == '\n') {
      out.append("\\n");
    } else if (c == '\r') {
      out.append("\\r");
    } else if (c == '\t') {
      out.append("\\t");
    } else if (!is_printable(c)) {
      std::array<char, 16> escaped{};
      const char* format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
      std::snprintf(escaped.data(), escaped.size(), format, static_cast<unsigned>(c));
      out.append(escaped.data());
    } else {
      out.append(text.substr(start, at - start));
    }
  }
  out.append(quote);
}

void append_items(Runtime& runtime, TextBuilder& out, const std::vector<Value>& items, int depth) {
  bool first = true;
  for (const Value& item : items) {
    if (!first) out.append(", ");
    first = false;
    append_repr(runtime, out, item, depth + 1);
  }
}

void append_sequence(Runtime& runtime, TextBuilder& out, const Sequence& sequence, int depth) {
  switch (sequence.kind) {
    case SequenceKind::list:
      out.append('[');
      append_items(runtime, out, sequence.items, depth);
      out.append(']');
      return;
    case SequenceKind::tuple:
      out.append('(');
      append_items(runtime, out, sequence.items, depth);
      out.append(sequence.items.size() == 1 ? ",)" : ")");
      return;
    case SequenceKind::range:
      out.append("range(" + std::to_string(sequence.start) + ", " + std::to_string(sequence.stop));
      if (sequence.step != 1) out.append(", " + std::to_string(sequence.step));
      out.append(')');
      return;
    case SequenceKind::iterator:
      out.append("<generator object>");
      return;
    case SequenceKind::keys:
    case SequenceKind::values:
    case SequenceKind::items:
      out.append(sequence.kind == SequenceKind::keys     ? "dict_keys(["
                 : sequence.kind == SequenceKind::values ? "dict_values(["
                                                         : "dict_items([");
      append_items(runtime, out, sequence.items, depth);
      out.append("])");
      return;
  }
}

void append_entries(Runtime& runtime, TextBuilder& out, Value value, int depth) {
  out.append('{');
  bool first = true;
  const auto entry = [&](Value key, Value item) {
    if (!first) out.append(", ");
    first = false;
    append_repr(runtime, out, key, depth + 1);
    out.append(": ");
    append_repr(runtime, out, item, depth + 1);
  };
  if (value.is(Kind::dict)) {
    for (const auto& [key, item] : value.as_dict().entries) entry(key, item);
  } else {
    for (const auto& [key, item] : value.as_namespace().attributes) entry(Value::string(key), item);
  }
  out.append('}');
}

}  // namespace

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // The shortest digits that read back as the same double, laid out as repr does: an exponent below 1e-4 and
  // from 1e16.
  std::array<char, 40> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific).ptr;
  const std::string_view text(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::size_t mark = text.find('e');
  std::string digits;
  for (const char c : text.substr(0, mark)) {
    if (c >= '0' && c <= '9') digits.push_back(c);
  }
  int exponent = 0;
  std::from_chars(text.data() + mark + (text[mark + 1] == '+' ? 2 : 1), text.data() + text.size(), exponent);
  std::string out = text[0] == '-' ? "-" : "";
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (count > 1) out += "." + digits.substr(1);
    const int size = std::abs(exponent);
    out += exponent < 0 ? "e-" : "e+";
    if (size < 10) out += "0";
    return out + std::to_string(size);
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1)
    return out + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  return out + digits.substr(0, static_cast<std::size_t>(exponent) + 1) + "." +
         digits.substr(static_cast<std::size_t>(exponent) + 1);
}

void append_repr(Runtime& runtime, TextBuilder& out, Value value, int depth) {
  runtime.budget.spend(1);
  if (depth > kValueDepth)
    fail_budget("a value nests deeper than " + std::to_string(kValueDepth) + " levels");
  switch (value.kind()) {
    case Kind::undefined:
      return out.append("Undefined");
    case Kind::string:
      if (value.is_markup()) out.append("Markup(");
      append_quoted(out, value.as_text());
      if (value.is_markup()) out.append(')');
      return;
    case Kind::sequence:
      return append_sequence(runtime, out, value.as_sequence(), depth);
    case Kind::dict:
      return append_entries(runtime, out, value, depth);
    case Kind::name_space:
      out.append("<Namespace ");
      append_entries(runtime, out, value, depth);
      return out.append('>');
    default:
      return append_text(runtime, out, value);
  }
}

void append_text(Runtime& runtime, TextBuilder& out, Value value) {
  switch (value.kind()) {
    case Kind::undefined:
      return;
    case Kind::none:
      return out.append("None");
    case Kind::boolean:
      return out.append(value.as_bool() ? "True" : "False");
    case Kind::integer:
      return out.append(std::to_string(value.as_int()));
    case Kind::big_integer:
    case Kind::string:
      return out.append(value.as_text());
    case Kind::real:
      return out.append(real_text(value.as_real()));
    case Kind::loop:
      return out.append("<LoopContext>");
    case Kind::callable:
      if (value.as_callable().macro == nullptr) return out.append("<function>");
      out.append("<Macro '");
      out.append(value.as_callable().name);
      return out.append("'>");
    case Kind::cycler:
      return out.append("<Cycler>");
    case Kind::joiner:
      return out.append("<Joiner>");
    default:
      return append_repr(runtime, out, value);
  }
}

std::string_view text_of(Runtime& runtime, Value value) {
  if (value.is_string()) return value.as_text();
  TextBuilder out(runtime);
  append_text(runtime, out, value);
  return out.take_value().as_text();
}

}  // namespace flyball::text::jinja
