// Python's operators on values: truth, equality, order, arithmetic, membership, attributes and items.
// Each fails as Python would; recursion into nested values is bounded by kValueDepth.
#pragma once

#include <optional>

#include "backends/text/jinja/ast.hpp"
#include "backends/text/jinja/runtime.hpp"
#include "backends/text/jinja/value.hpp"

namespace flyball::text::jinja {

// How deep lists and dicts may nest where a value is printed or compared.
inline constexpr int kValueDepth = 100;

bool truth(Value value) noexcept;
bool equal(Value a, Value b, Budget& budget, int depth = 0);
// a < b (-1), a == b (0), a > b (1), none for a NaN; fails on types without an order.
std::optional<int> order(Value a, Value b, Budget& budget, int depth = 0);
bool contains(Runtime& runtime, Value container, Value item);
Value arithmetic(Runtime& runtime, Operator op, Value a, Value b);
bool compare(Runtime& runtime, Operator op, Value a, Value b);
Value negate(Value value);
Value positive(Value value);

// len(value); fails where Python has none.
std::size_t length_of(Runtime& runtime, Value value);
// value.name and value[item] as Jinja2's sandbox resolves them; undefined where there is none.
Value attribute(Runtime& runtime, Value object, std::string_view name);
Value item(Runtime& runtime, Value object, Value index);
Value slice(Runtime& runtime, Value object, Value start, Value stop, Value step);
// Null if absent; fails on keys Python could not hash.
const Value* find_key(const Dict& dict, Value key, Budget& budget);
const Value* find_key(const Dict& dict, std::string_view key, Budget& budget);

[[noreturn]] void fail_undefined(Value value);  // "'x' is undefined"

}  // namespace flyball::text::jinja
