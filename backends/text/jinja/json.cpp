#include "backends/text/jinja/json.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>

#include "backends/text/jinja/operators.hpp"
#include "backends/text/jinja/sort.hpp"
#include "backends/text/jinja/unicode.hpp"

namespace flyball::text::jinja {
namespace {

// Recursion is as deep as `depth` at most. Fuel: one for each text and container, two for each entry of a
// dict.
Value build(Heap& heap, JsonView json, std::uint32_t depth, std::uint32_t most, std::string_view what) {
  const auto text = [&](std::string_view bytes) {
    heap.budget().spend(1);
    return bytes;
  };
  switch (json.kind()) {
    case JsonKind::null:
      return Value::none();
    case JsonKind::no:
    case JsonKind::yes:
      return Value::boolean(json.as_bool());
    case JsonKind::integer:
      return Value::integer(json.as_integer());
    case JsonKind::digits:
      return Value::big_integer(text(json.text()));
    case JsonKind::real:
      return Value::real(json.as_double());
    case JsonKind::string:
      return Value::string(text(json.text()));
    case JsonKind::array:
    case JsonKind::object:
      break;
  }
  if (depth >= most) {
    throw Failure{ErrorCode::json_too_deep,
                  std::string(what) + " nests deeper than " + std::to_string(most) + " levels"};
  }
  if (json.is_array()) {
    const Value list = heap.list({});
    std::vector<Value>& items = list.as_sequence().items;
    items.reserve(json.size());
    for (const auto& member : json.members())
      items.push_back(build(heap, member.value, depth + 1, most, what));
    return list;
  }
  Dict& dict = heap.dict();
  for (const auto& [name, member] : json.members()) {
    const Value key = Value::string(text(name));
    heap.set(dict, key, build(heap, member, depth + 1, most, what));
  }
  return Value::dict(&dict);
}

class Writer {
 public:
  Writer(Runtime& runtime, const Arguments& arguments) : runtime_(runtime), out_(runtime) {
    const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0);
    ascii_ = bound.truth_or(0, false);
    sort_ = bound.truth_or(3, false);
    if (!bound.absent(1)) {
      pretty_ = true;
      comma_ = ",";
      if (bound[1].is_string()) {
        indent_ = bound[1].as_text();
      } else {
        TextBuilder spaces(runtime);
        spaces.append_repeated(" ", static_cast<std::size_t>(std::max<std::int64_t>(0, bound.int_or(1, 0))));
        indent_ = spaces.take_value().as_text();
      }
    }
    if (!bound.absent(2)) {
      const std::span<const Value> pair = runtime.iterate(bound[2]);
      if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
        fail_template("tojson() wants two strings as separators");
      }
      comma_ = pair[0].as_text();
      colon_ = pair[1].as_text();
    }
  }

  Value run(Value value) {
    write(value, 0);
    return out_.take_value();
  }

 private:
  void newline(int depth) {
    if (!pretty_) return;
    out_.append('\n');
    for (int i = 0; i < depth; ++i) out_.append(indent_);
  }

  void write(Value value, int depth) {
    runtime_.budget.spend(1);
    if (depth > kValueDepth)
      fail_budget("a value nests deeper than " + std::to_string(kValueDepth) + " levels");
    switch (value.kind()) {
      case Kind::none:
        return out_.append("null");
      case Kind::boolean:
        return out_.append(value.as_bool() ? "true" : "false");
      case Kind::integer:
        return out_.append(std::to_string(value.as_int()));
      case Kind::big_integer:
        return out_.append(value.as_text());
      case Kind::real:
        return out_.append(number(value.as_real()));
      case Kind::string:
        return quote(value.as_text());
      case Kind::dict:
        return object(value.as_dict(), depth);
      case Kind::sequence:
        if (value.as_sequence().kind == SequenceKind::list ||
            value.as_sequence().kind == SequenceKind::tuple) {
          return array(value.as_sequence().items, depth);
        }
        break;
      default:
        break;
    }
    fail_template("an object of type " + std::string(type_name(value)) + " is not JSON serializable");
  }

  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return real_text(value);
  }

  void array(const std::vector<Value>& items, int depth) {
    if (items.empty()) return out_.append("[]");
    out_.append('[');
    bool first = true;
    for (const Value& item : items) {
      if (!first) out_.append(comma_);
      first = false;
      newline(depth + 1);
      write(item, depth + 1);
    }
    newline(depth);
    out_.append(']');
  }

  std::string_view key_text(Value key) {
    switch (key.kind()) {
      case Kind::string:
      case Kind::big_integer:
        return key.as_text();
      case Kind::none:
        return "null";
      case Kind::boolean:
        return key.as_bool() ? "true" : "false";
      case Kind::integer:
        return runtime_.copy_text(std::to_string(key.as_int())).as_text();
      case Kind::real:
        return runtime_.copy_text(number(key.as_real())).as_text();
      default:
        fail_template("a JSON object's keys cannot be of type " + std::string(type_name(key)));
    }
  }

  void object(const Dict& dict, int depth) {
    if (dict.entries.empty()) return out_.append("{}");
    std::vector<std::pair<Value, Value>> sorted;
    if (sort_) {
      runtime_.budget.spend(dict.entries.size());
      sorted = dict.entries;
      merge_sort(sorted, [&](const auto& a, const auto& b) {
        return order(a.first, b.first, runtime_.budget).value_or(0) < 0;
      });
    }
    out_.append('{');
    bool first = true;
    for (const auto& [key, value] : sort_ ? sorted : dict.entries) {
      if (!first) out_.append(comma_);
      first = false;
      newline(depth + 1);
      quote(key_text(key));
      out_.append(colon_);
      write(value, depth + 1);
    }
    newline(depth);
    out_.append('}');
  }

  void escape(const char* format, unsigned value) {
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), format, value);
    out_.append(text.data());
  }

  void quote(std::string_view text) {
    static constexpr std::string_view kFrom = "\"\\\n\r\t\f\b";
    static constexpr std::string_view kTo = "\"\\nrtfb";
    out_.append('"');
    std::size_t plain = 0;  // start of what is copied as it is
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t start = at;
      const char32_t c = next_code_point(text, at);
      const std::size_t known = c < 0x80 ? kFrom.find(static_cast<char>(c)) : std::string_view::npos;
      if (known == std::string_view::npos && c >= 0x20 && (c < 0x7F || c == 0x7F || !ascii_)) continue;
      out_.append(text.substr(plain, start - plain));
      plain = at;
      if (known != std::string_view::npos) {
        out_.append('\\');
        out_.append(kTo[known]);
      } else if (c < 0x10000) {
        escape("\\u%04x", static_cast<unsigned>(c));
      } else {
        escape("\\u%04x", static_cast<unsigned>(0xD800 + ((c - 0x10000) >> 10)));
        escape("\\u%04x", static_cast<unsigned>(0xDC00 + ((c - 0x10000) & 0x3FF)));
      }
    }
    out_.append(text.substr(plain));
    out_.append('"');
  }

  Runtime& runtime_;
  TextBuilder out_;
  bool ascii_ = false, sort_ = false, pretty_ = false;
  std::string_view indent_, comma_ = ", ", colon_ = ": ";
};

}  // namespace

Value from_json(Heap& heap, JsonView json, std::uint32_t depth, std::string_view what) {
  return json ? build(heap, json, 0, depth, what) : Value::none();
}

Value to_json(Runtime& runtime, Value value, const Arguments& arguments) {
  return Writer(runtime, arguments).run(value);
}

}  // namespace flyball::text::jinja
