// The tables that config.yaml, policy.yaml and apps.d/*.yaml are written down in: which keys exist, of which
// type and range, meaning what. One table checks a file, reads it into a struct and prints the JSON Schema
// for editors.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/error.hpp"
#include "config/yaml.hpp"

namespace flyball::config {

// How a text must look beyond its length.
struct Form {
  std::string_view expected;  // "64 hexadecimal digits"
  std::string_view pattern;   // the same as a regular expression, for the JSON Schema
  bool (*matches)(std::string_view);
};
extern const Form kAnyText, kId, kSha256Hex;

// A key that files of an earlier version had, and what its author writes instead.
struct RemovedKey {
  std::string_view key, remedy;
};

struct Row;
struct Shape {
  enum class Kind : std::uint8_t {
    boolean,
    integer,    // min to max
    text,       // min to max bytes, of `form`
    choice,     // one of `names`
    duration,   // min to max milliseconds, "30s"
    size,       // min to max bytes, "64KiB"
    scalar,     // boolean, number or text: what it means depends on its neighbours (a policy's operands)
    list,       // min to max items of `element`; or_single: one item may stand without the brackets
    map,        // min to max entries of `element`, keyed by id
    object,     // `rows`
    reference,  // another shape, by name: how recursive shapes (rules, conditions) are written
  };
  Kind kind = Kind::text;
  std::int64_t min = 0, max = 0;
  const Form* form = nullptr;
  std::vector<std::string_view> names;
  std::shared_ptr<const Shape> element;
  bool or_single = false;
  bool secret = false;  // it, or what is written there by mistake, may be a key: messages do not show it
  std::vector<Row> rows;
  std::vector<RemovedKey> removed;       // object
  std::string_view name;                 // reference
  std::function<const Shape&()> target;  // reference
};

struct Row {
  std::string_view key;
  Shape shape;
  std::string_view meaning;
  bool required = false;
};

Shape boolean();
Shape integer(std::int64_t min, std::int64_t max);
Shape text(std::int64_t min_bytes, std::int64_t max_bytes, const Form& form = kAnyText);
Shape id();
Shape choice(std::vector<std::string_view> names);
Shape duration(std::chrono::milliseconds min, std::chrono::milliseconds max);
Shape size(std::uint64_t min_bytes, std::uint64_t max_bytes);
Shape scalar();
Shape list(Shape element, std::int64_t min, std::int64_t max);
Shape list_or_single(Shape element, std::int64_t min, std::int64_t max);
Shape map(Shape element, std::int64_t min, std::int64_t max);
Shape object(std::vector<Row> rows);
Shape secret(Shape shape);
Shape reference(std::string_view name, std::function<const Shape&()> target);

using Findings = std::vector<Error>;  // config_invalid each, in the file's order

// Every way in which the node departs from the shape: unknown keys (with the nearest known one), types,
// ranges, missing keys. `path` names the node in messages, "" for the whole file.
void check_shape(const Node& node, const Shape& shape, const std::string& path, Findings& findings);
// The file's first key must be `schema: <schema>`.
void check_schema_line(const Node& root, std::string_view schema, Findings& findings);
// JSON Schema, draft 2020-12, as text.
std::string json_schema(const Shape& shape, std::string_view title);

// Values of nodes that check_shape found nothing wrong with.
bool as_bool(const Node& node);
std::int64_t as_integer(const Node& node);
template <class T>
T as(const Node& node) {
  return static_cast<T>(as_integer(node));
}
std::chrono::milliseconds as_duration(const Node& node);
std::uint64_t as_bytes(const Node& node);
std::vector<std::string> as_texts(const Node& node);  // list of text, or one alone

// A row and where its value goes: the table of one struct is a vector of these.
template <class T>
struct Bound {
  Row row;
  void (*set)(T& into, const Node& value);
};

template <class T>
Shape object_of(const std::vector<Bound<T>>& table) {
  std::vector<Row> rows;
  for (const Bound<T>& bound : table) rows.push_back(bound.row);
  return object(std::move(rows));
}

template <class T>
void read_into(T& into, const Node& node, const std::vector<Bound<T>>& table) {
  for (const Entry& entry : node.entries)
    for (const Bound<T>& bound : table)
      if (bound.row.key == entry.key) bound.set(into, entry.value);
}

// "; did you mean \"x\"?" or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates);
Error finding(const Mark& at, std::string message, std::string path = {});
// The first finding, with the number of others: what a Result carries of them.
Error first_of(const Findings& findings);

}  // namespace flyball::config
