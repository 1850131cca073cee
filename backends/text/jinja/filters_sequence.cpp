// Filters on sequences and mappings. Where Jinja2 gives a generator, the items are computed at once here and
// wrapped in an iterator: no length, truth always, readable once.
#include <algorithm>
#include <charconv>
#include <string>

#include "backends/text/jinja/filters.hpp"
#include "backends/text/jinja/operators.hpp"
#include "backends/text/jinja/sort.hpp"
#include "backends/text/jinja/unicode.hpp"

namespace flyball::text::jinja {
namespace {

Value iterator(Runtime& runtime, std::vector<Value>&& items) {
  return runtime.heap.sequence(SequenceKind::iterator, std::move(items));
}

// item.a.b.0 for the path "a.b.0" or an integer.
Value follow(Runtime& runtime, Value object, Value path) {
  if (!path.is_string()) return item(runtime, object, path);
  std::string_view rest = path.as_text();
  runtime.budget.spend(rest.size() / 16);
  while (true) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, dot);
    std::int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = error == std::errc{} && end == part.data() + part.size() && !part.starts_with('-');
    object = item(runtime, object, is_index ? Value::integer(index) : Value::string(part));
    if (dot == rest.size()) return object;
    rest.remove_prefix(dot + 1);
  }
}

// The sort key: the item or its attribute, in lower case where case does not matter.
Value key_of(Runtime& runtime, Value value, Value path, bool case_sensitive) {
  if (!path.is_none() && !path.is_undefined()) value = follow(runtime, value, path);
  if (case_sensitive || !value.is_string()) return value;
  runtime.budget.spend_bytes(value.as_text().size());
  return runtime.heap.text(lower(value.as_text()));
}

struct Keyed {
  Value key, value;
};

void sort_keyed(Runtime& runtime, std::vector<Keyed>& items, bool reverse) {
  merge_sort(items, [&](const Keyed& a, const Keyed& b) {
    const auto sign = order(a.key, b.key, runtime.budget);
    return sign && (reverse ? *sign > 0 : *sign < 0);
  });
}

std::vector<Keyed> keyed(Runtime& runtime, Value self, Value path, bool case_sensitive) {
  std::vector<Keyed> items;
  for (const Value& value : runtime.iterate(self)) {
    runtime.budget.spend(1);
    items.push_back({key_of(runtime, value, path, case_sensitive), value});
  }
  return items;
}

Value length_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("length", arguments, {}, 0);
  return Value::integer(static_cast<std::int64_t>(length_of(runtime, self)));
}

Value list_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("list", arguments, {}, 0);
  const std::span<const Value> items = runtime.iterate(self);
  runtime.budget.spend(items.size());
  return runtime.heap.list({items.begin(), items.end()});
}

Value first_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("first", arguments, {}, 0);
  if (self.is(Kind::sequence) && self.as_sequence().kind == SequenceKind::iterator) {
    Sequence& source = self.as_sequence();
    return source.next < source.items.size() ? source.items[source.next++] : Value::undefined("first");
  }
  const std::span<const Value> items = runtime.iterate(self);
  return items.empty() ? Value::undefined("first") : items.front();
}

void check_reversible(Value self) {
  if (self.is(Kind::sequence) && self.as_sequence().kind == SequenceKind::iterator) {
    fail_template("'generator' object is not reversible");
  }
}

Value last_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("last", arguments, {}, 0);
  check_reversible(self);
  const std::span<const Value> items = runtime.iterate(self);
  return items.empty() ? Value::undefined("last") : items.back();
}

Value reverse_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("reverse", arguments, {}, 0);
  if (self.is_string()) {
    const Value minus = Value::integer(-1);
    return slice(runtime, self, Value::none(), Value::none(), minus);
  }
  const std::span<const Value> items = runtime.iterate(self);
  runtime.budget.spend(items.size());
  return iterator(runtime, {items.rbegin(), items.rend()});
}

Value join_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("join", arguments, {"d", "attribute"}, 0);
  const std::string_view separator = bound.has(0) ? text_of(runtime, bound[0]) : "";
  TextBuilder out(runtime);
  bool first = true;
  for (const Value& value : runtime.iterate(self)) {
    runtime.budget.spend(1);
    if (!first) out.append(separator);
    first = false;
    append_text(runtime, out, bound.absent(1) ? value : follow(runtime, value, bound[1]));
  }
  return out.take_value();
}

constexpr std::size_t kMapDepth = 16;

// Jinja2 guards these two with `if value`: none, "" and 0 give nothing.
Value map_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  std::vector<Value> items;
  if (!truth(self)) return iterator(runtime, {});
  if (arguments.positional.empty()) {
    const Bound bound("map", arguments, {"attribute", "default"}, 1);
    for (const Value& value : runtime.iterate(self)) {
      runtime.budget.spend(1);
      const Value found = follow(runtime, value, bound[0]);
      items.push_back(found.is_undefined() && !bound.absent(1) ? bound[1] : found);
    }
    return iterator(runtime, std::move(items));
  }
  const Value name = arguments.positional[0];
  const Native filter = name.is_string() ? find_filter(name.as_text()) : nullptr;
  if (filter == nullptr) fail_template("map() wants the name of a filter");
  // map('map', 'map', ...) recurses once an argument.
  if (filter == map_filter && arguments.positional.size() > kMapDepth) fail_budget("map() nests too deeply");
  runtime.budget.spend(arguments.positional.size() + arguments.keyword.size());
  Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.keyword};
  for (const Value& value : runtime.iterate(self)) {
    runtime.budget.spend(1);
    items.push_back(filter(runtime, value, rest));
  }
  return iterator(runtime, std::move(items));
}

// select, reject, selectattr, rejectattr.
Value choose(Runtime& runtime, Value self, const Arguments& arguments, bool by_attribute, bool keep) {
  if (!truth(self)) return iterator(runtime, {});
  const std::size_t skip = by_attribute ? 1 : 0;
  if (arguments.positional.size() < skip) fail_template("missing parameter for attribute name");
  Native test = nullptr;
  Arguments rest;
  if (arguments.positional.size() > skip) {
    const Value name = arguments.positional[skip];
    test = name.is_string() ? find_test(name.as_text()) : nullptr;
    runtime.budget.spend(arguments.positional.size() + arguments.keyword.size());
    if (test == nullptr) fail_template("no test named '" + std::string(text_of(runtime, name)) + "'");
    rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(skip) + 1,
                           arguments.positional.end());
    rest.keyword = arguments.keyword;
  }
  std::vector<Value> items;
  for (const Value& value : runtime.iterate(self)) {
    runtime.budget.spend(1);
    const Value subject = by_attribute ? follow(runtime, value, arguments.positional[0]) : value;
    if (truth(test != nullptr ? test(runtime, subject, rest) : subject) == keep) items.push_back(value);
  }
  return iterator(runtime, std::move(items));
}

Value select_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  return choose(runtime, self, arguments, false, true);
}
Value reject_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  return choose(runtime, self, arguments, false, false);
}
Value selectattr_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  return choose(runtime, self, arguments, true, true);
}
Value rejectattr_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  return choose(runtime, self, arguments, true, false);
}

Value sort_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"}, 0);
  std::vector<Keyed> items = keyed(runtime, self, bound.value_or(2, Value::none()), bound.truth_or(1, false));
  sort_keyed(runtime, items, bound.truth_or(0, false));
  std::vector<Value> sorted;
  for (const Keyed& entry : items) sorted.push_back(entry.value);
  return runtime.heap.list(std::move(sorted));
}

Value unique_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"}, 0);
  Dict& seen = runtime.heap.dict();
  std::vector<Value> items;
  for (const Keyed& entry :
       keyed(runtime, self, bound.value_or(1, Value::none()), bound.truth_or(0, false))) {
    if (find_key(seen, entry.key, runtime.budget) != nullptr) continue;
    runtime.heap.set(seen, entry.key, Value::none());
    items.push_back(entry.value);
  }
  return iterator(runtime, std::move(items));
}

Value extreme(Runtime& runtime, Value self, const Arguments& arguments, int wanted) {
  const Bound bound(wanted < 0 ? "min" : "max", arguments, {"case_sensitive", "attribute"}, 0);
  const std::vector<Keyed> items =
      keyed(runtime, self, bound.value_or(1, Value::none()), bound.truth_or(0, false));
  if (items.empty()) return Value::undefined(wanted < 0 ? "min" : "max");
  const Keyed* best = &items[0];
  for (const Keyed& entry : items) {
    if (order(entry.key, best->key, runtime.budget) == wanted) best = &entry;
  }
  return best->value;
}
Value min_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  return extreme(runtime, self, arguments, -1);
}
Value max_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  return extreme(runtime, self, arguments, 1);
}

Value sum_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("sum", arguments, {"attribute", "start"}, 0);
  Value total = bound.value_or(1, Value::integer(0));
  if (total.is_string()) fail_template("sum() can't sum strings");
  for (const Value& value : runtime.iterate(self)) {
    runtime.budget.spend(1);
    total =
        arithmetic(runtime, Operator::add, total, bound.absent(0) ? value : follow(runtime, value, bound[0]));
  }
  return total;
}

Value pair_of(Runtime& runtime, Value key, Value value) {
  return runtime.heap.tuple({key, value});
}

Value items_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("items", arguments, {}, 0);
  std::vector<Value> items;
  if (!self.is_undefined()) {
    if (!self.is(Kind::dict)) fail_template("Can only get item pairs from a mapping.");
    for (const auto& [key, value] : self.as_dict().entries) items.push_back(pair_of(runtime, key, value));
  }
  return iterator(runtime, std::move(items));
}

Value dictsort_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"}, 0);
  const std::string_view by = bound.text_or(1, "key");
  if (by != "key" && by != "value") fail_template("You can only sort by either \"key\" or \"value\"");
  if (!self.is(Kind::dict)) {
    if (self.is_undefined()) fail_undefined(self);
    fail_template("dictsort() wants a mapping, not '" + std::string(type_name(self)) + "'");
  }
  std::vector<Keyed> entries;
  for (const auto& [key, value] : self.as_dict().entries) {
    entries.push_back({key_of(runtime, by == "key" ? key : value, Value::none(), bound.truth_or(0, false)),
                       pair_of(runtime, key, value)});
  }
  sort_keyed(runtime, entries, bound.truth_or(2, false));
  std::vector<Value> sorted;
  for (const Keyed& entry : entries) sorted.push_back(entry.value);
  return runtime.heap.list(std::move(sorted));
}

Value batch_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("batch", arguments, {"linecount", "fill_with"}, 1);
  const std::int64_t size = bound.int_or(0, 1);
  if (size < 1) fail_template("batch() wants a positive size");
  std::vector<Value> batches, current;
  for (const Value& value : runtime.iterate(self)) {
    runtime.budget.spend(1);
    if (current.size() == static_cast<std::size_t>(size))
      batches.push_back(runtime.heap.list(std::exchange(current, {})));
    current.push_back(value);
  }
  if (!current.empty()) {
    if (!bound.absent(1)) {
      runtime.budget.spend(static_cast<std::uint64_t>(size) - current.size());
      current.resize(static_cast<std::size_t>(size), bound[1]);
    }
    batches.push_back(runtime.heap.list(std::move(current)));
  }
  return iterator(runtime, std::move(batches));
}

Value groupby_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const bool case_sensitive = bound.truth_or(2, false);
  std::vector<Keyed> items;
  for (const Value& value : runtime.iterate(self)) {
    runtime.budget.spend(1);
    Value key = follow(runtime, value, bound[0]);
    if (key.is_undefined() && !bound.absent(1)) key = bound[1];
    items.push_back({key_of(runtime, key, Value::none(), case_sensitive), value});
  }
  sort_keyed(runtime, items, false);
  std::vector<Value> groups;
  for (std::size_t i = 0; i < items.size();) {
    std::vector<Value> members;
    const std::size_t start = i;
    while (i < items.size() && equal(items[i].key, items[start].key, runtime.budget))
      members.push_back(items[i++].value);
    if (i == start) members.push_back(items[i++].value);  // a NaN equals nothing, itself neither
    Value key = follow(runtime, members.front(), bound[0]);
    if (key.is_undefined() && !bound.absent(1)) key = bound[1];
    groups.push_back(pair_of(runtime, key, runtime.heap.list(std::move(members))));
    groups.back().as_sequence().is_group = true;
  }
  return runtime.heap.list(std::move(groups));
}

Value attr_filter(Runtime& runtime, Value self, const Arguments& arguments) {
  const Bound bound("attr", arguments, {"name"}, 1);
  // Attributes only: a mapping's keys are not.
  const Value found = attribute(runtime, self, bound.text(0));
  const bool is_entry = self.is(Kind::dict) && find_method(self, bound.text(0)) == nullptr;
  return is_entry ? Value::undefined(bound.text(0), self.kind()) : found;
}

constexpr NamedNative kFilters[] = {
    {"attr", attr_filter},
    {"batch", batch_filter},
    {"count", length_filter},
    {"dictsort", dictsort_filter},
    {"first", first_filter},
    {"groupby", groupby_filter},
    {"items", items_filter},
    {"join", join_filter},
    {"last", last_filter},
    {"length", length_filter},
    {"list", list_filter},
    {"map", map_filter},
    {"max", max_filter},
    {"min", min_filter},
    {"reject", reject_filter},
    {"rejectattr", rejectattr_filter},
    {"reverse", reverse_filter},
    {"select", select_filter},
    {"selectattr", selectattr_filter},
    {"sort", sort_filter},
    {"sum", sum_filter},
    {"unique", unique_filter},
};

}  // namespace

std::span<const NamedNative> sequence_filters() noexcept {
  return kFilters;
}

Native find_filter(std::string_view name) noexcept {
  for (const auto& table : {text_filters(), sequence_filters()}) {
    for (const auto& [known, native] : table) {
      if (known == name) return native;
    }
  }
  return nullptr;
}

}  // namespace flyball::text::jinja
