// Attributes, items, slices and lengths, as Jinja2's immutable sandbox resolves them.
#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "backends/text/jinja/loop.hpp"
#include "backends/text/jinja/operators.hpp"
#include "backends/text/jinja/unicode.hpp"

namespace flyball::text::jinja {
namespace {

// Methods that change their object: the immutable sandbox gives undefined for them.
bool is_denied(Value object, std::string_view name) {
  static constexpr std::array<std::string_view, 5> kDict{"clear", "pop", "popitem", "setdefault", "update"};
  static constexpr std::array<std::string_view, 8> kList{"append", "clear",  "extend",  "insert",
                                                         "pop",    "remove", "reverse", "sort"};
  if (object.is(Kind::dict)) return std::ranges::find(kDict, name) != kDict.end();
  return object.is(Kind::sequence) && object.as_sequence().kind == SequenceKind::list &&
         std::ranges::find(kList, name) != kList.end();
}

bool find_attribute(Runtime& runtime, Value object, std::string_view name, Value& found) {
  if (object.is(Kind::name_space)) {
    runtime.budget.spend(object.as_namespace().attributes.size() * (1 + name.size() / 16));
    for (const auto& [key, value] : object.as_namespace().attributes) {
      if (key == name) {
        found = value;
        return true;
      }
    }
    return false;
  }
  if (object.is(Kind::loop) && loop_attribute(object.as_loop(), name, found)) return true;
  if (object.is(Kind::sequence) && object.as_sequence().is_group && (name == "grouper" || name == "list")) {
    found = object.as_sequence().items[name == "list" ? 1 : 0];
    return true;
  }
  if (object.is(Kind::cycler) && name == "current") {
    const Cycler& cycler = object.as_cycler();
    found = cycler.items[cycler.position];
    return true;
  }
  if (object.is(Kind::callable) && name == "name" && object.as_callable().macro != nullptr) {
    found = Value::string(object.as_callable().name);
    return true;
  }
  if (const Native method = find_method(object, name)) {
    found = runtime.heap.bind(method, object, name);
    return true;
  }
  if (is_denied(object, name)) {
    found = Value::undefined(name, object.kind());
    return true;
  }
  return false;
}

bool is_indexable(Value value) {
  if (!value.is(Kind::sequence)) return false;
  const SequenceKind kind = value.as_sequence().kind;
  return kind == SequenceKind::list || kind == SequenceKind::tuple || kind == SequenceKind::range;
}

// A slice's bounds over `size` elements, by Python's rules.
struct Span {
  std::int64_t start, step;
  std::size_t count;
};

Span slice_span(Value start, Value stop, Value step, std::int64_t size) {
  const auto integer = [](Value value, std::int64_t fallback) {
    if (value.is_none()) return fallback;
    if (!value.is_int()) fail_template("slice indices must be integers or None");
    return value.as_int();
  };
  const std::int64_t by = integer(step, 1);
  if (by == 0) fail_template("slice step cannot be zero");
  const std::int64_t least = by > 0 ? 0 : -1;
  const std::int64_t most = by > 0 ? size : size - 1;
  const auto clip = [&](std::int64_t at) { return std::clamp(at < 0 ? at + size : at, least, most); };
  const std::int64_t from = start.is_none() ? (by > 0 ? least : most) : clip(integer(start, 0));
  const std::int64_t to = stop.is_none() ? (by > 0 ? most : least) : clip(integer(stop, 0));
  const std::int64_t distance = by > 0 ? to - from : from - to;
  if (distance <= 0) return {from, by, 0};
  const auto pace =
      by > 0 ? static_cast<std::uint64_t>(by) : std::uint64_t{0} - static_cast<std::uint64_t>(by);
  return {from, by, static_cast<std::size_t>((static_cast<std::uint64_t>(distance) - 1) / pace + 1)};
}

Value slice_text(Runtime& runtime, Value object, Value start, Value stop, Value step) {
  const std::string_view text = object.as_text();
  runtime.budget.spend_bytes(text.size());
  const std::size_t size = length(text);
  const Span span = slice_span(start, stop, step, static_cast<std::int64_t>(size));
  if (span.count == 0) return Value::string("", object.is_markup());
  if (span.step == 1) {
    const std::size_t from = size == text.size() ? static_cast<std::size_t>(span.start)
                                                 : offset_of(text, static_cast<std::size_t>(span.start));
    const std::string_view rest = text.substr(from);
    return Value::string(rest.substr(0, size == text.size() ? span.count : offset_of(rest, span.count)),
                         object.is_markup());
  }
  const std::span<const Value> characters = runtime.iterate(object);
  TextBuilder out(runtime);
  std::int64_t at = span.start;
  for (std::size_t i = 0; i < span.count; ++i) {
    out.append(characters[static_cast<std::size_t>(at)].as_text());
    if (i + 1 < span.count) at += span.step;
  }
  return out.take_value(object.is_markup());
}

}  // namespace

const Value* find_key(const Dict& dict, std::string_view key, Budget& budget) {
  // Keys that begin alike are read through to their ends, as often as a look-up compares.
  const std::size_t entries = dict.entries.size();
  const std::size_t compared =
      entries > Dict::kIndexFrom ? static_cast<std::size_t>(std::bit_width(entries)) : entries;
  budget.spend(key.size() / 16 * compared);
  return dict.find(key);
}

const Value* find_key(const Dict& dict, Value key, Budget& budget) {
  switch (key.kind()) {
    case Kind::string:
      return find_key(dict, key.as_text(), budget);
    case Kind::undefined:
    case Kind::none:
    case Kind::boolean:
    case Kind::integer:
    case Kind::big_integer:
    case Kind::real:
      break;
    case Kind::sequence:
      if (key.as_sequence().kind == SequenceKind::tuple) break;
      [[fallthrough]];
    case Kind::dict:
      fail_template("unhashable type: '" + std::string(type_name(key)) + "'");
    default:
      break;
  }
  budget.spend(dict.entries.size());
  for (const auto& [name, value] : dict.entries) {
    if (!name.is_string() && equal(name, key, budget)) return &value;
  }
  return nullptr;
}

std::size_t length_of(Runtime& runtime, Value value) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      runtime.budget.spend_bytes(value.as_text().size());
      return length(value.as_text());
    case Kind::dict:
      return value.as_dict().entries.size();
    case Kind::sequence:
      if (value.as_sequence().kind != SequenceKind::iterator) return value.as_sequence().items.size();
      break;
    case Kind::loop:
      return loop_size(value.as_loop());
    default:
      break;
  }
  fail_template("object of type '" + std::string(type_name(value)) + "' has no len()");
}

Value attribute(Runtime& runtime, Value object, std::string_view name) {
  if (object.is_undefined()) fail_undefined(object);
  Value found;
  if (find_attribute(runtime, object, name, found)) return found;
  if (object.is(Kind::dict)) {
    if (const Value* entry = find_key(object.as_dict(), name, runtime.budget)) return *entry;
  }
  return Value::undefined(name, object.kind());
}

Value item(Runtime& runtime, Value object, Value index) {
  if (object.is_undefined()) fail_undefined(object);
  if (object.is(Kind::dict)) {
    const bool hashable = !index.is(Kind::dict) &&
                          !(index.is(Kind::sequence) && index.as_sequence().kind != SequenceKind::tuple);
    const Value* entry = hashable ? find_key(object.as_dict(), index, runtime.budget) : nullptr;
    if (entry != nullptr) return *entry;
  } else if (index.is_int() && (object.is_string() || is_indexable(object))) {
    const auto size = static_cast<std::int64_t>(length_of(runtime, object));
    const std::int64_t at = index.as_int() < 0 ? index.as_int() + size : index.as_int();
    if (at >= 0 && at < size) {
      if (!object.is_string()) return object.as_sequence().items[static_cast<std::size_t>(at)];
      const std::string_view text = object.as_text();
      const std::size_t from = static_cast<std::size_t>(size) == text.size()
                                   ? static_cast<std::size_t>(at)
                                   : offset_of(text, static_cast<std::size_t>(at));
      const std::string_view rest = text.substr(from);
      return Value::string(rest.substr(0, offset_of(rest, 1)), object.is_markup());
    }
  }
  if (index.is_string()) {
    Value found;
    if (find_attribute(runtime, object, index.as_text(), found)) return found;
    return Value::undefined(index.as_text(), object.kind());
  }
  if (!index.is_int()) return Value::undefined("item", object.kind());
  return Value::undefined(runtime.copy_text(std::to_string(index.as_int())).as_text(), object.kind());
}

Value slice(Runtime& runtime, Value object, Value start, Value stop, Value step) {
  if (object.is_undefined()) fail_undefined(object);
  if (object.is_string()) return slice_text(runtime, object, start, stop, step);
  if (!is_indexable(object))
    fail_template("'" + std::string(type_name(object)) + "' object cannot be sliced");
  const Sequence& from = object.as_sequence();
  const auto size = static_cast<std::int64_t>(from.items.size());
  const Span span = slice_span(start, stop, step, size);
  runtime.budget.spend(span.count);
  std::vector<Value> items;
  items.reserve(span.count);
  std::int64_t at = span.start;
  for (std::size_t i = 0; i < span.count; ++i) {
    items.push_back(from.items[static_cast<std::size_t>(at)]);
    if (i + 1 < span.count) at += span.step;
  }
  const Value made = runtime.heap.sequence(from.kind, std::move(items));
  if (from.kind == SequenceKind::range) {
    // Only printed. Python's bounds may lie beyond int64 where the items do not; here they wrap.
    Sequence& range = made.as_sequence();
    const auto wrapping = [](std::int64_t base, std::int64_t times, std::int64_t factor) {
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(base) +
                                       static_cast<std::uint64_t>(times) *
                                           static_cast<std::uint64_t>(factor));
    };
    range.start = wrapping(from.start, span.start, from.step);
    range.step = span.count > 1 ? wrapping(0, from.step, span.step) : from.step;
    range.stop = wrapping(range.start, static_cast<std::int64_t>(span.count), range.step);
  }
  return made;
}

}  // namespace flyball::text::jinja
