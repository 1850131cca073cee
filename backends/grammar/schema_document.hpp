// A JSON Schema as a document: where its references lead, and which keywords its schemas have. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/grammar/fuel.hpp"
#include "config/error.hpp"
#include "config/packed_json.hpp"

namespace flyball::grammar {

// A JSON pointer. Its text is made only for an error: a schema may have a long key above many values.
class Pointer {
 public:
  Pointer() = default;  // the root's
  // `key` outlives the pointer; it is a part of the document or the name of a keyword.
  Pointer child(std::string_view key) const;
  Pointer child(std::uint32_t index) const;
  bool is_root() const noexcept { return step_ == nullptr; }
  std::string text() const;

 private:
  struct Step;
  explicit Pointer(Step step);
  std::shared_ptr<const Step> step_;
};

struct Pointer::Step {
  Pointer parent;
  std::string_view key;
  std::uint32_t index;
  bool is_index;
};

inline Pointer::Pointer(Step step) : step_(std::make_shared<const Step>(std::move(step))) {}
inline Pointer Pointer::child(std::string_view key) const {
  return Pointer({*this, key, 0, false});
}
inline Pointer Pointer::child(std::uint32_t index) const {
  return Pointer({*this, {}, index, true});
}

// A value within the document.
struct Place {
  JsonView value;
  Pointer pointer;

  Place member(std::string_view key, JsonView of_key) const { return {of_key, pointer.child(key)}; }
  Place item(std::uint32_t index, JsonView of_index) const { return {of_index, pointer.child(index)}; }
};

// The keywords that mean something to a grammar.
enum class Keyword : std::uint8_t {
  ref,
  dynamic_ref,
  type,
  constant,
  enumeration,
  all_of,
  any_of,
  one_of,
  negation,
  condition,
  then,
  otherwise,
  minimum,
  maximum,
  exclusive_minimum,
  exclusive_maximum,
  multiple_of,
  min_length,
  max_length,
  pattern,
  format,
  items,
  prefix_items,
  contains,
  min_contains,
  max_contains,
  min_items,
  max_items,
  unique_items,
  properties,
  pattern_properties,
  additional_properties,
  property_names,
  required,
  min_properties,
  max_properties,
  dependent_required,
  dependent_schemas,
  unevaluated_items,
  unevaluated_properties,
  // of older drafts
  additional_items,
  dependencies,
  count,
};
std::string_view name_of(Keyword keyword) noexcept;

// The keywords of one schema that is an object.
class Keywords {
 public:
  // Keys that JSON Schema does not know are annotations, but for those that look like a misspelt keyword and
  // keywords that are not served: unsupported_feature with their pointer.
  static Result<Keywords> read(const Place& schema, Fuel& fuel);

  JsonView operator[](Keyword which) const noexcept { return values_[static_cast<std::size_t>(which)]; }
  Place at(Keyword which) const { return {(*this)[which], pointer_.child(name_of(which))}; }
  bool has_any() const noexcept;
  // The same schema with these keywords alone, or without these.
  Keywords only(std::initializer_list<Keyword> these) const;
  Keywords without(std::initializer_list<Keyword> these) const;

 private:
  std::array<JsonView, static_cast<std::size_t>(Keyword::count)> values_{};
  Pointer pointer_;
};

class SchemaDocument {
 public:
  SchemaDocument(JsonView root, Fuel& fuel) : root_(root), fuel_(&fuel) {}

  Place root() const { return {root_, {}}; }
  // The schema that a $ref at `place` names: "#", "#/...", "#anchor", or any of these behind an $id of the
  // document. It is relative to the resource that the reference stands in. Fails with invalid_value and the
  // place's pointer if it names nothing, with unsupported_feature if it names another document.
  Result<Place> resolve(const Place& place);
  // The schema that a $dynamicRef at `place` names, as for a $ref. Which schema it means depends on the way
  // to it only where the document has several $dynamicAnchor of its name; unsupported_feature then.
  Result<Place> resolve_dynamic(const Place& place);
  // The number of the innermost resource around a schema: equal schemas of one resource mean the same.
  Result<std::size_t> resource_of(const Place& schema);

 private:
  // A schema with an $id, or the root, and all within it but the resources within.
  struct Resource {
    Place place;
    std::string uri;
    std::size_t parent;       // index of the resource around it; the root's is its own
    bool is_draft_4 = false;  // named by `id`: its references are refused
  };
  // The keywords of an object mean something unless it holds schemas by name.
  enum class Role : std::uint8_t { schema, schemas_by_name };

  Result<void> index();
  Result<void> index(const Place& at, Role role, std::size_t resource);
  // The place that a JSON pointer leads to; its view is absent if there is none.
  Result<Place> follow(Place from, std::string_view pointer, const Place& reference);
  Result<Place> member(const Place& object, std::string_view key);
  Result<Place> item(const Place& array, std::uint32_t index);

  JsonView root_;
  Fuel* fuel_;
  std::vector<Resource> resources_;  // in document order; empty until the document is indexed
  std::map<std::string, std::size_t, std::less<>> resources_by_uri_;
  std::map<std::pair<std::size_t, std::string_view>, Place> anchors_;  // by resource and name
  std::map<std::string_view, std::size_t> dynamic_anchors_;            // how many have a name
  // Members of large objects and arrays, so that references to each of n definitions cost n, not n squared.
  struct Member {
    std::string_view key;
    JsonView value;
  };
  std::map<const char*, std::unordered_map<std::string_view, Member>> members_;
  std::map<const char*, std::vector<JsonView>> items_;
};

}  // namespace flyball::grammar
