// A JSON Schema as a document: where its references lead, and which keywords its schemas have. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "backends/grammar/fuel.hpp"
#include "config/error.hpp"
#include "config/packed_json.hpp"

namespace flyball::grammar {

// A value within the document, and its JSON pointer.
struct Place {
  JsonView value;
  std::string pointer;

  // That of a member; the view is absent where there is none.
  Place member(std::string_view key) const { return {value.find(key), within(key)}; }
  std::string within(std::string_view key) const;
};

// The keywords that mean something to a grammar.
enum class Keyword : std::uint8_t {
  ref,
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
  // unsupported_feature with the pointer of a keyword that is neither served nor an annotation, unless
  // unknown ones pass for annotations.
  static Result<Keywords> read(const Place& schema, bool accepts_unknown);

  JsonView operator[](Keyword which) const noexcept { return values_[static_cast<std::size_t>(which)]; }
  Place at(Keyword which) const { return {(*this)[which], pointer_ + "/" + std::string(name_of(which))}; }
  bool has_any() const noexcept;

 private:
  std::array<JsonView, static_cast<std::size_t>(Keyword::count)> values_{};
  std::string pointer_;
};

class SchemaDocument {
 public:
  explicit SchemaDocument(JsonView root) : root_(root) {}

  Place root() const { return {root_, ""}; }
  // The schema that a $ref at `place` names: "#", "#/...", "#anchor", or any of these behind an $id of the
  // document. invalid_value with the place's pointer where it names nothing; unsupported_feature for other
  // documents.
  Result<Place> resolve(const Place& place, Fuel& fuel);

 private:
  Result<void> index(const Place& at, Fuel& fuel);
  // The place that a JSON pointer leads to; its view is absent where there is none.
  Place follow(Place from, std::string_view pointer, Fuel& fuel);
  JsonView member(JsonView object, std::string_view key, Fuel& fuel);

  JsonView root_;
  bool is_indexed_ = false;
  // Members of large objects by key, so that a reference to each of n definitions does not cost n squared.
  std::map<const char*, std::unordered_map<std::string_view, JsonView>> members_;
  std::map<std::string, Place, std::less<>> anchors_;    // by name
  std::map<std::string, Place, std::less<>> resources_;  // by absolute $id
};

}  // namespace flyball::grammar
