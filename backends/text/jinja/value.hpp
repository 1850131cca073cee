// Values of a render: what Python objects a template can see. A Value is 16 bytes and trivially copyable;
// what it points at belongs to the Heap of the render (or to the parsed program, for literals) and lives
// until its end, so slices of strings are views and cycles through namespaces need no care.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/text/jinja/failure.hpp"

namespace flyball::text::jinja {

enum class Kind : std::uint8_t {
  undefined,
  none,
  boolean,
  integer,      // int64; Python's wider integers fail with template_error
  big_integer,  // an integer literal of the input beyond int64: prints, compares equal, refuses arithmetic
  real,
  string,
  sequence,
  dict,
  name_space,
  loop,
  callable,
  cycler,
  joiner,
};

struct Sequence;
struct Dict;
struct Namespace;
struct Loop;
struct Callable;
struct Cycler;
struct Joiner;

class Value {
 public:
  Value() = default;  // undefined, without a name

  static Value undefined(std::string_view name,
                         Kind of = Kind::undefined);  // of: the object lacking the attribute
  static Value none() { return Value(Kind::none); }
  static Value boolean(bool value);
  static Value integer(std::int64_t value);
  static Value big_integer(std::string_view digits);
  static Value real(double value);
  static Value string(std::string_view text, bool markup = false);  // the bytes must outlive the render
  static Value sequence(Sequence* object) { return Value(Kind::sequence, object); }
  static Value dict(Dict* object) { return Value(Kind::dict, object); }
  static Value name_space(Namespace* object) { return Value(Kind::name_space, object); }
  static Value loop(Loop* object) { return Value(Kind::loop, object); }
  static Value callable(Callable* object) { return Value(Kind::callable, object); }
  static Value cycler(Cycler* object) { return Value(Kind::cycler, object); }
  static Value joiner(Joiner* object) { return Value(Kind::joiner, object); }

  Kind kind() const noexcept { return kind_; }
  bool is(Kind kind) const noexcept { return kind_ == kind; }
  bool is_undefined() const noexcept { return kind_ == Kind::undefined; }
  bool is_none() const noexcept { return kind_ == Kind::none; }
  bool is_string() const noexcept { return kind_ == Kind::string; }
  bool is_markup() const noexcept {
    return is_string() && detail_ != 0;
  }  // markupsafe.Markup, from `safe` or `e`
  bool is_int() const noexcept {
    return kind_ == Kind::integer || kind_ == Kind::boolean;
  }  // isinstance(v, int)
  bool is_number() const noexcept { return is_int() || kind_ == Kind::real || kind_ == Kind::big_integer; }

  // Each has the kind as its precondition.
  bool as_bool() const noexcept { return integer_ != 0; }
  std::int64_t as_int() const noexcept { return integer_; }  // integer or boolean
  double as_real() const noexcept { return real_; }
  std::string_view as_text() const noexcept {
    return {text_, size_};
  }  // string, digits, or an undefined's name
  Kind missing_from() const noexcept { return static_cast<Kind>(detail_); }
  Sequence& as_sequence() const noexcept { return *static_cast<Sequence*>(object_); }
  Dict& as_dict() const noexcept { return *static_cast<Dict*>(object_); }
  Namespace& as_namespace() const noexcept { return *static_cast<Namespace*>(object_); }
  Loop& as_loop() const noexcept { return *static_cast<Loop*>(object_); }
  Callable& as_callable() const noexcept { return *static_cast<Callable*>(object_); }
  Cycler& as_cycler() const noexcept { return *static_cast<Cycler*>(object_); }
  Joiner& as_joiner() const noexcept { return *static_cast<Joiner*>(object_); }
  const void* address() const noexcept { return object_; }

 private:
  explicit Value(Kind kind, void* object = nullptr) : kind_(kind), object_(object) {}

  Kind kind_ = Kind::undefined;
  std::uint8_t detail_ = 0;  // string: is markup; undefined: the Kind it is missing from
  std::uint32_t size_ = 0;   // bytes of text_
  union {
    std::int64_t integer_;
    double real_;
    const char* text_;
    void* object_ = nullptr;
  };
};
static_assert(sizeof(Value) == 16);

enum class SequenceKind : std::uint8_t {
  list,
  tuple,
  range,
  iterator,  // a generator: no length, no items by index, true even when empty, read once
  keys,      // dict.keys() and its brothers: a length, but no items by index
  values,
  items,
};

struct Sequence {
  SequenceKind kind = SequenceKind::list;
  std::vector<Value> items;
  std::size_t next = 0;                        // iterator: how many were read
  std::int64_t start = 0, stop = 0, step = 1;  // range
  bool is_group = false;                       // tuple: (grouper, list) of groupby
};

// Insertion-ordered, as Python's. Keys are none, boolean, integer, real, string or tuple.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::map<std::string_view, std::uint32_t>
      by_text;  // string keys, once there are more than kIndexFrom entries

  static constexpr std::size_t kIndexFrom = 8;
  const Value* find(std::string_view key) const noexcept;  // null if absent
};

struct Namespace {
  std::vector<std::pair<std::string_view, Value>> attributes;
};

// The arguments of one call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> keyword;
};

struct Runtime;
struct MacroNode;
struct Scope;
// A filter, test, method or global function. self: the piped value or the method's object.
using Native = Value (*)(Runtime& runtime, Value self, const Arguments& arguments);

struct Callable {
  Native native = nullptr;  // or a macro:
  const MacroNode* macro = nullptr;
  Scope* scope = nullptr;  // where the macro was defined
  Value self;
  std::string_view name;
};

struct Cycler {
  std::vector<Value> items;
  std::size_t position = 0;
};

struct Joiner {
  Value separator;
  bool used = false;
};

// Owns what values of one render point at. Every allocation is paid for from the budget first.
class Heap {
 public:
  explicit Heap(Budget& budget) : budget_(&budget) {}

  // The budget for the text was spent while it was built.
  Value text(std::string&& text, bool markup = false);
  Value sequence(SequenceKind kind, std::vector<Value>&& items);
  Value list(std::vector<Value>&& items) { return sequence(SequenceKind::list, std::move(items)); }
  Value tuple(std::vector<Value>&& items) { return sequence(SequenceKind::tuple, std::move(items)); }
  Dict& dict();
  // Adds or replaces. Fails on keys Python could not hash.
  void set(Dict& dict, Value key, Value value);
  Value bind(Native native, Value self, std::string_view name);
  Namespace& make_namespace();
  Callable& make_callable();
  Cycler& make_cycler();
  Joiner& make_joiner();

  Budget& budget() noexcept { return *budget_; }

 private:
  Budget* budget_;
  std::deque<std::string> texts_;
  std::deque<Sequence> sequences_;
  std::deque<Dict> dicts_;
  std::deque<Namespace> namespaces_;
  std::deque<Callable> callables_;
  std::deque<Cycler> cyclers_;
  std::deque<Joiner> joiners_;
};

// "str", "list", "int" and so on, as Python names the type.
std::string_view type_name(Value value) noexcept;

}  // namespace flyball::text::jinja
