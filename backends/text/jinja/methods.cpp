// The allow-list of methods: those of Python's str, dict, list and tuple that change nothing. Methods of
// loops and cyclers are in globals.cpp.
#include <algorithm>
#include <string>

#include "backends/text/jinja/filters.hpp"
#include "backends/text/jinja/format.hpp"
#include "backends/text/jinja/globals.hpp"
#include "backends/text/jinja/letter_case.hpp"
#include "backends/text/jinja/operators.hpp"
#include "backends/text/jinja/unicode.hpp"

namespace flyball::text::jinja {
namespace {

template <Side From>
Value strip_method(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("strip", arguments, {"chars"}, 0);
  const std::string_view text = self.as_text();
  runtime.budget.spend_bytes(text.size());
  if (bound.absent(0)) return Value::string(strip(text, From), self.is_markup());
  runtime.budget.spend((text.size() / 16 + 1) * (bound.text(0).size() / 16 + 1));
  return Value::string(strip(text, bound.text(0), From), self.is_markup());
}

// Pieces between white space; at most `most` cuts (all when negative), counted from the left or from the
// right.
void split_on_space(Runtime& runtime, std::string_view text, std::int64_t most, bool from_right,
                    std::vector<std::string_view>& pieces) {
  const Side outer = from_right ? Side::right : Side::left;
  std::string_view rest = strip(text, outer);
  while (!rest.empty()) {
    runtime.budget.spend(1);
    if (most-- == 0) {
      pieces.push_back(rest);  // what is left keeps its far end's white space
      break;
    }
    std::size_t cut = from_right ? rest.size() : 0;
    while (from_right ? cut > 0 : cut < rest.size()) {
      std::size_t next = from_right ? previous(rest, cut) : cut;
      const std::size_t start = next;
      const char32_t c = next_code_point(rest, next);
      if (is_space(c)) break;
      cut = from_right ? start : next;
    }
    pieces.push_back(from_right ? rest.substr(cut) : rest.substr(0, cut));
    rest = strip(from_right ? rest.substr(0, cut) : rest.substr(cut), outer);
  }
}

void split_on(Runtime& runtime, std::string_view text, std::string_view separator, std::int64_t most,
              bool from_right, std::vector<std::string_view>& pieces) {
  std::vector<std::size_t> cuts;
  if (from_right) {
    // From the right, cuts may fall elsewhere than from the left ("aaa" at "aa").
    for (std::size_t end = text.size(); most != 0 && end >= separator.size(); --most) {
      const std::size_t found = text.substr(0, end).rfind(separator);
      if (found == std::string_view::npos) break;
      runtime.budget.spend(1);
      cuts.push_back(found);
      end = found;
    }
    std::ranges::reverse(cuts);
  } else {
    for (std::size_t at = 0; most != 0; --most) {
      const std::size_t found = find_text(runtime, text, separator, at);
      if (found == std::string_view::npos) break;
      cuts.push_back(found);
      at = found + separator.size();
    }
  }
  std::size_t start = 0;
  for (const std::size_t cut : cuts) {
    pieces.push_back(text.substr(start, cut - start));
    start = cut + separator.size();
  }
  pieces.push_back(text.substr(start));
}

template <bool FromRight>
Value split_method(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("split", arguments, {"sep", "maxsplit"}, 0);
  const std::string_view text = self.as_text();
  runtime.budget.spend_bytes(text.size());
  std::vector<std::string_view> pieces;
  if (bound.absent(0)) {
    split_on_space(runtime, text, bound.int_or(1, -1), FromRight, pieces);
    if (FromRight) std::ranges::reverse(pieces);
  } else {
    if (bound.text(0).empty()) fail_template("empty separator");
    // rfind is quadratic at worst; it is paid for as such where the separator is long.
    if (FromRight) runtime.budget.spend(text.size() / 16 * (bound.text(0).size() / 16 + 1));
    split_on(runtime, text, bound.text(0), bound.int_or(1, -1), FromRight, pieces);
  }
  std::vector<Value> items;
  for (const std::string_view piece : pieces) items.push_back(Value::string(piece, self.is_markup()));
  return runtime.heap.list(std::move(items));
}

Value splitlines_method(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("splitlines", arguments, {"keepends"}, 0);
  std::vector<Value> items;
  for (const std::string_view line : lines_of(runtime, self.as_text(), bound.truth_or(0, false))) {
    items.push_back(Value::string(line, self.is_markup()));
  }
  return runtime.heap.list(std::move(items));
}

template <bool FromRight>
Value partition_method(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("partition", arguments, {"sep"}, 1);
  if (bound.text(0).empty()) fail_template("empty separator");
  runtime.budget.spend(self.as_text().size() / 16 * (bound.text(0).size() / 16 + 1));
  const std::string_view text = self.as_text();
  const std::size_t at = FromRight ? text.rfind(bound.text(0)) : find_text(runtime, text, bound.text(0), 0);
  const Value none = Value::string("");
  if (at == std::string_view::npos) {
    return FromRight ? runtime.heap.tuple({none, none, self}) : runtime.heap.tuple({self, none, none});
  }
  return runtime.heap.tuple(
      {Value::string(text.substr(0, at)), bound[0], Value::string(text.substr(at + bound.text(0).size()))});
}

// text[start:end] for the methods that take bounds as arguments 1 and 2; offset: bytes before it.
std::string_view window(Runtime& runtime, std::string_view text, const Bound& bound, std::size_t& offset) {
  offset = 0;
  if (bound.absent(1) && bound.absent(2)) return text;
  const Value part = slice(runtime, Value::string(text), bound.value_or(1, Value::none()),
                           bound.value_or(2, Value::none()), Value::none());
  offset =
      part.as_text().empty() ? text.size() : static_cast<std::size_t>(part.as_text().data() - text.data());
  return part.as_text();
}

template <bool AtEnd>
Value affix_method(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound(AtEnd ? "endswith" : "startswith", arguments, {"affix", "start", "end"}, 1);
  std::size_t offset = 0;
  const std::string_view text = window(runtime, self.as_text(), bound, offset);
  const auto matches = [&](std::string_view affix) {
    runtime.budget.spend_bytes(affix.size());
    return AtEnd ? text.ends_with(affix) : text.starts_with(affix);
  };
  if (!bound[0].is(Kind::sequence)) return Value::boolean(matches(bound.text(0)));
  for (const Value& affix : bound[0].as_sequence().items) {
    if (!affix.is_string() || bound[0].as_sequence().kind != SequenceKind::tuple) {
      fail_template("startswith and endswith want a string or a tuple of strings");
    }
    if (matches(affix.as_text())) return Value::boolean(true);
  }
  return Value::boolean(false);
}

enum class Missing { minus_one, fails };

template <bool FromRight, Missing OnMissing>
Value find_method_of_text(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("find", arguments, {"sub", "start", "end"}, 1);
  std::size_t offset = 0;
  const std::string_view text = window(runtime, self.as_text(), bound, offset);
  runtime.budget.spend(text.size() / 16 * (FromRight ? bound.text(0).size() / 16 + 1 : 1) + 1);
  const std::size_t found =
      FromRight ? text.rfind(bound.text(0)) : find_text(runtime, text, bound.text(0), 0);
  if (found == std::string_view::npos) {
    if (OnMissing == Missing::fails) fail_template("substring not found");
    return Value::integer(-1);
  }
  runtime.budget.spend_bytes(offset + found);
  return Value::integer(static_cast<std::int64_t>(length(self.as_text().substr(0, offset + found))));
}

Value count_method(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"sub", "start", "end"}, 1);
  std::size_t offset = 0;
  const std::string_view text = window(runtime, self.as_text(), bound, offset);
  const std::string_view needle = bound.text(0);
  runtime.budget.spend_bytes(text.size());
  if (needle.empty()) return Value::integer(static_cast<std::int64_t>(length(text)) + 1);
  std::int64_t count = 0;
  for (std::size_t at = find_text(runtime, text, needle, 0); at != std::string_view::npos;
       at = find_text(runtime, text, needle, at + needle.size())) {
    ++count;
  }
  return Value::integer(count);
}

Value replace_method(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  return replace_text(runtime, self.as_text(), bound.text(0), bound.text(1), bound.int_or(2, -1));
}

Value join_method(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("join", arguments, {"iterable"}, 1);
  TextBuilder out(runtime);
  bool first = true;
  for (const Value& value : runtime.iterate(bound[0])) {
    runtime.budget.spend(1);
    if (!value.is_string()) {
      fail_template("join() wants strings, not '" + std::string(type_name(value)) + "'");
    }
    if (!first) out.append(self.as_text());
    first = false;
    out.append(value.as_text());
  }
  return out.take_value();
}

template <bool AtEnd>
Value remove_affix_method(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound(AtEnd ? "removesuffix" : "removeprefix", arguments, {"affix"}, 1);
  std::string_view text = self.as_text();
  const std::string_view affix = bound.text(0);
  runtime.budget.spend_bytes(affix.size());
  if (AtEnd && text.ends_with(affix)) text.remove_suffix(affix.size());
  if (!AtEnd && text.starts_with(affix)) text.remove_prefix(affix.size());
  return Value::string(text);
}

template <Align Where>
Value pad_method(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("ljust", arguments, {"width", "fillchar"}, 1);
  const std::string_view fill = bound.text_or(1, " ");
  if (length(fill) != 1) fail_template("The fill character must be exactly one character long");
  return pad_text(runtime, self.as_text(), bound.int_or(0, 0), fill, Where);
}

Value zfill_method(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("zfill", arguments, {"width"}, 1);
  const std::string_view text = self.as_text();
  const std::size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const Value padded = pad_text(runtime, text.substr(sign),
                                bound.int_or(0, 0) - static_cast<std::int64_t>(sign), "0", Align::right);
  TextBuilder out(runtime);
  out.append(text.substr(0, sign));
  out.append(padded.as_text());
  return out.take_value(self.is_markup());
}

Value format_method(Runtime& runtime, Value self, const Arguments& arguments) {
  return format_braces(runtime, self.as_text(), arguments);
}

// Every character passes, and there is one.
template <bool (*Check)(char32_t)>
Value every_method(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("is", arguments, {}, 0);
  runtime.budget.spend_bytes(self.as_text().size());
  for (std::size_t at = 0; at < self.as_text().size();) {
    if (!Check(next_code_point(self.as_text(), at))) return Value::boolean(false);
  }
  return Value::boolean(!self.as_text().empty());
}
bool is_alnum(char32_t c) {
  return is_alpha(c) || is_digit(c);
}

template <const char* Test>
Value case_method(Runtime& runtime, Value self, const Arguments& arguments) {
  return find_test(Test)(runtime, self, arguments);
}
constexpr char kUpper[] = "upper";
constexpr char kLower[] = "lower";

Value get_method(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("get", arguments, {"key", "default"}, 1);
  const Value* found = find_key(self.as_dict(), bound[0], runtime.budget);
  return found != nullptr ? *found : bound.value_or(1, Value::none());
}

template <SequenceKind Kind>
Value view_method(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("items", arguments, {}, 0);
  const Dict& dict = self.as_dict();
  runtime.budget.spend(dict.entries.size());
  std::vector<Value> items;
  for (const auto& [key, value] : dict.entries) {
    items.push_back(Kind == SequenceKind::keys     ? key
                    : Kind == SequenceKind::values ? value
                                                   : runtime.heap.tuple({key, value}));
  }
  return runtime.heap.sequence(Kind, std::move(items));
}

Value copy_dict_method(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("copy", arguments, {}, 0);
  Dict& copy = runtime.heap.dict();
  for (const auto& [key, value] : self.as_dict().entries) runtime.heap.set(copy, key, value);
  return Value::dict(&copy);
}

Value copy_list_method(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("copy", arguments, {}, 0);
  return runtime.heap.list(std::vector<Value>(self.as_sequence().items));
}

Value count_items_method(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"value"}, 1);
  std::int64_t count = 0;
  for (const Value& value : self.as_sequence().items) count += equal(value, bound[0], runtime.budget) ? 1 : 0;
  return Value::integer(count);
}

Value index_method(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("index", arguments, {"value"}, 1);
  const auto& items = self.as_sequence().items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (equal(items[i], bound[0], runtime.budget)) return Value::integer(static_cast<std::int64_t>(i));
  }
  fail_template("a value is not in the list");
}

constexpr NamedNative kTextMethods[] = {
    {"capitalize", capitalized_text},
    {"casefold", lower_text},
    {"center", pad_method<Align::center>},
    {"count", count_method},
    {"endswith", affix_method<true>},
    {"find", find_method_of_text<false, Missing::minus_one>},
    {"format", format_method},
    {"index", find_method_of_text<false, Missing::fails>},
    {"isalnum", every_method<is_alnum>},
    {"isalpha", every_method<is_alpha>},
    {"isdecimal", every_method<is_digit>},
    {"isdigit", every_method<is_digit>},
    {"islower", case_method<kLower>},
    {"isnumeric", every_method<is_digit>},
    {"isspace", every_method<is_space>},
    {"isupper", case_method<kUpper>},
    {"join", join_method},
    {"ljust", pad_method<Align::left>},
    {"lower", lower_text},
    {"lstrip", strip_method<Side::left>},
    {"partition", partition_method<false>},
    {"removeprefix", remove_affix_method<false>},
    {"removesuffix", remove_affix_method<true>},
    {"replace", replace_method},
    {"rfind", find_method_of_text<true, Missing::minus_one>},
    {"rindex", find_method_of_text<true, Missing::fails>},
    {"rjust", pad_method<Align::right>},
    {"rpartition", partition_method<true>},
    {"rsplit", split_method<true>},
    {"rstrip", strip_method<Side::right>},
    {"split", split_method<false>},
    {"splitlines", splitlines_method},
    {"startswith", affix_method<false>},
    {"strip", strip_method<Side::both>},
    {"swapcase", swapped_text},
    {"title", titled_text},
    {"upper", upper_text},
    {"zfill", zfill_method},
};

constexpr NamedNative kDictMethods[] = {
    {"copy", copy_dict_method},
    {"get", get_method},
    {"items", view_method<SequenceKind::items>},
    {"keys", view_method<SequenceKind::keys>},
    {"values", view_method<SequenceKind::values>},
};

constexpr NamedNative kListMethods[] = {
    {"copy", copy_list_method},
    {"count", count_items_method},
    {"index", index_method},
};

Native find_in(std::span<const NamedNative> table, std::string_view name) {
  for (const auto& [known, native] : table) {
    if (known == name) return native;
  }
  return nullptr;
}

}  // namespace

std::span<const NamedNative> text_methods() noexcept {
  return kTextMethods;
}

Native find_method(Value object, std::string_view name) noexcept {
  switch (object.kind()) {
    case Kind::string:
      return find_in(kTextMethods, name);
    case Kind::dict:
      return find_in(kDictMethods, name);
    case Kind::sequence:
      if (object.as_sequence().kind == SequenceKind::list) return find_in(kListMethods, name);
      if (object.as_sequence().kind == SequenceKind::tuple) return find_in({&kListMethods[1], 2}, name);
      return nullptr;
    default:
      return find_object_method(object, name);
  }
}

}  // namespace flyball::text::jinja
