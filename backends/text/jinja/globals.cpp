#include "backends/text/jinja/globals.hpp"

#include <array>
#include <ctime>
#include <string>

#include "backends/text/jinja/filters.hpp"
#include "backends/text/jinja/loop.hpp"
#include "backends/text/jinja/operators.hpp"

namespace flyball::text::jinja {
namespace {

constexpr std::uint64_t kMaxRange = 100'000;  // Jinja2's sandbox: MAX_RANGE

Value range_function(Runtime& runtime, Value, const Arguments& arguments) {
  const Bound bound("range", arguments, {"start", "stop", "step"}, 1);
  if (!arguments.keyword.empty()) fail_template("range() takes no keyword arguments");
  const std::int64_t start = bound.has(1) ? bound.int_or(0, 0) : 0;
  const std::int64_t stop = bound.has(1) ? bound.int_or(1, 0) : bound.int_or(0, 0);
  const std::int64_t step = bound.int_or(2, 1);
  if (step == 0) fail_template("range() arg 3 must not be zero");
  // In unsigned arithmetic: the distance of two int64 may need 64 bits.
  const bool is_empty = step > 0 ? start >= stop : start <= stop;
  const auto from = static_cast<std::uint64_t>(step > 0 ? start : stop);
  const std::uint64_t distance = is_empty ? 0 : static_cast<std::uint64_t>(step > 0 ? stop : start) - from;
  const std::uint64_t pace =
      step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  const std::uint64_t size = distance / pace + (distance % pace != 0 ? 1 : 0);
  if (size > kMaxRange) {
    fail_template("range() gives more than the " + std::to_string(kMaxRange) + " items a template may use");
  }
  const auto count = static_cast<std::int64_t>(size);
  runtime.budget.spend(size);
  std::vector<Value> items;
  items.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) items.push_back(Value::integer(start + i * step));
  const Value made = runtime.heap.sequence(SequenceKind::range, std::move(items));
  Sequence& range = made.as_sequence();
  range.start = start, range.stop = stop, range.step = step;
  return made;
}

// Entries of dict(...) and namespace(...): one mapping or sequence of pairs, then named ones.
void fill(Runtime& runtime, Dict& dict, const Arguments& arguments, std::string_view function) {
  if (arguments.positional.size() > 1)
    fail_template(std::string(function) + "() takes at most 1 positional argument");
  if (!arguments.positional.empty()) {
    const Value from = arguments.positional[0];
    if (from.is(Kind::dict)) {
      for (const auto& [key, value] : from.as_dict().entries) runtime.heap.set(dict, key, value);
    } else {
      for (const Value& entry : runtime.iterate(from)) {
        const std::span<const Value> pair = runtime.iterate(entry);
        if (pair.size() != 2) fail_template(std::string(function) + "() wants pairs");
        runtime.heap.set(dict, pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.keyword) runtime.heap.set(dict, Value::string(name), value);
}

Value dict_function(Runtime& runtime, Value, const Arguments& arguments) {
  Dict& made = runtime.heap.dict();
  fill(runtime, made, arguments, "dict");
  return Value::dict(&made);
}

Value namespace_function(Runtime& runtime, Value, const Arguments& arguments) {
  Dict entries;
  fill(runtime, entries, arguments, "namespace");
  auto& made = runtime.heap.make_namespace();
  for (const auto& [key, value] : entries.entries) {
    if (key.is_string()) made.attributes.emplace_back(key.as_text(), value);
  }
  return Value::name_space(&made);
}

Value cycler_function(Runtime& runtime, Value, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.keyword.empty())
    fail_template("cycler() wants at least one item");
  auto& made = runtime.heap.make_cycler();
  made.items = arguments.positional;
  return Value::cycler(&made);
}

Value joiner_function(Runtime& runtime, Value, const Arguments& arguments) {
  const Bound bound("joiner", arguments, {"sep"}, 0);
  auto& made = runtime.heap.make_joiner();
  made.separator = bound.value_or(0, Value::string(", "));
  return Value::joiner(&made);
}

Value raise_exception(Runtime& runtime, Value, const Arguments& arguments) {
  const Bound bound("raise_exception", arguments, {"message"}, 1);
  fail_template(std::string(text_of(runtime, bound[0])));
}

Value strftime_now(Runtime& runtime, Value, const Arguments& arguments) {
  const Bound bound("strftime_now", arguments, {"format"}, 1);
  const std::time_t seconds = runtime.now;
  std::tm local{};
  if (localtime_r(&seconds, &local) == nullptr) fail_template("the time is out of range");
  const std::string_view format = bound.text(0);
  TextBuilder out(runtime);
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      out.append(format.substr(at, 1));
      continue;
    }
    // One directive at a time, of those whose length is bounded; the C library sees no widths.
    std::string directive = "%";
    std::size_t next = at + 1;
    if (next < format.size() && (format[next] == '-' || format[next] == '_')) directive += format[next++];
    const char type = next < format.size() ? format[next] : '\0';
    if (type == '\0' ||
        std::string_view("aAbBcdDeFGgHIjklmMnpPrRsStTuUVwWxXyYzZ%hCf").find(type) == std::string_view::npos) {
      fail_template("strftime_now() does not know the directive in '" + std::string(format.substr(at, 3)) +
                    "'");
    }
    at = next;
    if (type == 'f') {
      out.append("000000");
      continue;
    }
    directive += type;
    std::array<char, 128> text{};
    out.append({text.data(), std::strftime(text.data(), text.size(), directive.c_str(), &local)});
  }
  return out.take_value();
}

Value cycle_method(Runtime&, Value self, const Arguments& arguments) {
  if (arguments.positional.empty()) fail_template("no items for cycling given");
  return arguments.positional[self.as_loop().index % arguments.positional.size()];
}

Value changed_method(Runtime& runtime, Value self, const Arguments& arguments) {
  Loop& loop = self.as_loop();
  bool same = loop.has_seen && loop.last_seen.size() == arguments.positional.size();
  for (std::size_t i = 0; same && i < loop.last_seen.size(); ++i) {
    same = equal(loop.last_seen[i], arguments.positional[i], runtime.budget);
  }
  loop.has_seen = true;
  loop.last_seen = arguments.positional;
  return Value::boolean(!same);
}

Value next_method(Runtime&, Value self, const Arguments& arguments) {
  const Bound bound("next", arguments, {}, 0);
  Cycler& cycler = self.as_cycler();
  const Value current = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return current;
}

Value reset_method(Runtime&, Value self, const Arguments& arguments) {
  const Bound bound("reset", arguments, {}, 0);
  self.as_cycler().position = 0;
  return Value::none();
}

constexpr NamedNative kGlobals[] = {
    {"cycler", cycler_function},          {"dict", dict_function},
    {"joiner", joiner_function},          {"namespace", namespace_function},
    {"raise_exception", raise_exception}, {"range", range_function},
    {"strftime_now", strftime_now},
};

}  // namespace

Native find_global(std::string_view name) noexcept {
  for (const auto& [known, native] : kGlobals) {
    if (known == name) return native;
  }
  return nullptr;
}

Native find_object_method(Value object, std::string_view name) noexcept {
  if (object.is(Kind::loop))
    return name == "cycle" ? cycle_method : name == "changed" ? changed_method : nullptr;
  if (object.is(Kind::cycler)) return name == "next" ? next_method : name == "reset" ? reset_method : nullptr;
  return nullptr;
}

Value call_joiner(Joiner& joiner) {
  if (joiner.used) return joiner.separator;
  joiner.used = true;
  return Value::string("");
}

bool loop_attribute(const Loop& loop, std::string_view name, Value& found) {
  const auto integer = [](std::size_t value) { return Value::integer(static_cast<std::int64_t>(value)); };
  const std::size_t size = loop.items.size();
  if (name == "index") {
    found = integer(loop.index + 1);
  } else if (name == "index0") {
    found = integer(loop.index);
  } else if (name == "first") {
    found = Value::boolean(loop.index == 0);
  } else if (name == "last") {
    found = Value::boolean(loop.index + 1 == size);
  } else if (name == "length") {
    found = integer(size);
  } else if (name == "revindex") {
    found = integer(size - loop.index);
  } else if (name == "revindex0") {
    found = integer(size - loop.index - 1);
  } else if (name == "previtem") {
    found = loop.index > 0 ? loop.items[loop.index - 1] : Value::undefined("previtem");
  } else if (name == "nextitem") {
    found = loop.index + 1 < size ? loop.items[loop.index + 1] : Value::undefined("nextitem");
  } else if (name == "depth") {
    found = integer(loop.depth);
  } else if (name == "depth0") {
    found = integer(loop.depth - 1);
  } else {
    return false;
  }
  return true;
}

std::size_t loop_size(const Loop& loop) noexcept {
  return loop.items.size();
}

}  // namespace flyball::text::jinja
