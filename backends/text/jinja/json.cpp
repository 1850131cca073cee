#include "backends/text/jinja/json.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "backends/text/jinja/operators.hpp"
#include "backends/text/jinja/sort.hpp"
#include "backends/text/jinja/unicode.hpp"

namespace flyball::text::jinja {
namespace {

using nlohmann::json;

// Builds values from parse events: no recursion, whatever the input's depth.
class Builder : public nlohmann::json_sax<json> {
 public:
  Builder(Heap& heap, std::uint32_t depth, std::string_view what) : heap_(heap), depth_(depth), what_(what) {}

  bool null() override { return add(Value::none()); }
  bool boolean(bool value) override { return add(Value::boolean(value)); }
  bool number_integer(number_integer_t value) override { return add(Value::integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return add(Value::integer(static_cast<std::int64_t>(value)));
    }
    return add(Value::big_integer(heap_.text(std::to_string(value)).as_text()));
  }
  bool number_float(number_float_t value, const string_t& written) override {
    if (written.find_first_of(".eE") != std::string::npos) return add(Value::real(value));
    return add(Value::big_integer(heap_.text(std::string(written)).as_text()));
  }
  bool string(string_t& text) override { return add(heap_.text(std::move(text))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Value::dict(&heap_.dict())); }
  bool key(string_t& name) override {
    keys_.back() = heap_.text(std::move(name));
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(heap_.list({})); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    throw Failure{ErrorCode::invalid_json, std::string(what_) + " is not valid JSON: byte " +
                                               std::to_string(position) + " is unexpected"};
  }

  Value result() const { return root_; }

 private:
  bool add(Value value) {
    if (open_.empty()) {
      root_ = value;
    } else if (open_.back().is(Kind::dict)) {
      heap_.set(open_.back().as_dict(), keys_.back(), value);
    } else {
      open_.back().as_sequence().items.push_back(value);
    }
    return true;
  }
  bool open(Value container) {
    if (open_.size() >= depth_) {
      throw Failure{ErrorCode::json_too_deep,
                    std::string(what_) + " nests deeper than " + std::to_string(depth_) + " levels"};
    }
    add(container);
    open_.push_back(container);
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  Heap& heap_;
  std::uint32_t depth_;
  std::string_view what_;
  Value root_;
  std::vector<Value> open_, keys_;
};

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

Value parse_json(Heap& heap, std::string_view text, std::uint32_t depth, std::string_view what) {
  Builder builder(heap, depth, what);
  if (!json::sax_parse(text.begin(), text.end(), &builder)) {
    throw Failure{ErrorCode::invalid_json, std::string(what) + " is not valid JSON"};
  }
  return builder.result();
}

Value to_json(Runtime& runtime, Value value, const Arguments& arguments) {
  return Writer(runtime, arguments).run(value);
}

}  // namespace flyball::text::jinja
