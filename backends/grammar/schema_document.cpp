#include "backends/grammar/schema_document.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "backends/grammar/schema_error.hpp"
#include "config/percent.hpp"

namespace flyball::grammar {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(Keyword::count)> kNames = {
    "$ref",
    "$dynamicRef",
    "type",
    "const",
    "enum",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "items",
    "prefixItems",
    "contains",
    "minContains",
    "maxContains",
    "minItems",
    "maxItems",
    "uniqueItems",
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "required",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedItems",
    "unevaluatedProperties",
    "additionalItems",
    "dependencies"};

// Keywords that say nothing of a value: annotations, and what only references look for.
constexpr std::string_view kSilent[] = {
    "$anchor",         "$comment",         "$defs",         "$dynamicAnchor", "$id",         "$schema",
    "contentEncoding", "contentMediaType", "contentSchema", "default",        "definitions", "deprecated",
    "description",     "discriminator",    "example",       "examples",       "id",          "readOnly",
    "title",           "writeOnly"};

// Keywords that restrict values or lead to schemas, and are not served: no annotations, as unknown ones are.
constexpr std::string_view kAsserting[] = {
    "$recursiveRef",          "disallow",      "divisibleBy",   "extends",    "formatExclusiveMaximum",
    "formatExclusiveMinimum", "formatMaximum", "formatMinimum", "maxDecimal", "maximumCanEqual",
    "minimumCanEqual",        "requires"};

constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// A word's letters in lower case, without punctuation; "" for one that is longer than every misspelt keyword.
class Letters {
 public:
  constexpr explicit Letters(std::string_view word) {
    if (word.size() > kMost) return;
    for (const char c : word)
      if (std::string_view("_-:,. ").find(c) == std::string_view::npos) letters_[size_++] = lower(c);
  }
  constexpr operator std::string_view() const { return {letters_.data(), size_}; }

 private:
  static constexpr std::size_t kMost = 32;
  std::array<char, kMost> letters_{};
  std::size_t size_ = 0;
};

constexpr auto kLetters = [] {
  std::array<Letters, kNames.size()> out = []<std::size_t... i>(std::index_sequence<i...>) {
    return std::array{Letters(kNames[i])...};
  }
  (std::make_index_sequence<kNames.size()>());
  return out;
}();

// The same word, or one with a letter added, missing or changed, or two of them swapped. Words of four
// letters have too many neighbours: of them swapped and doubled letters alone. Shorter ones have to be the
// same.
bool is_misspelling(std::string_view letters, std::string_view meant) {
  constexpr std::size_t kFewLetters = 4;
  if (letters == meant) return true;
  const std::size_t n = letters.size(), m = meant.size();
  if (m < kFewLetters || n > m + 1 || m > n + 1) return false;
  std::size_t head = 0, tail = 0;
  while (head < std::min(n, m) && letters[head] == meant[head]) ++head;
  while (tail < std::min(n, m) - head && letters[n - 1 - tail] == meant[m - 1 - tail]) ++tail;
  const std::size_t left = std::max(n, m) - head - tail;
  if (left == 2 && n == m && letters[head] == meant[head + 1] && letters[head + 1] == meant[head])
    return true;
  if (m > kFewLetters || meant.starts_with('$')) return left <= 1;
  return left == 1 && n == m + 1 && head > 0 && letters[head] == letters[head - 1];
}

// The keyword that a key was meant to be; "" if the key is an annotation of its author's. A first character
// that no keyword has says so on purpose.
std::string_view misspelt(std::string_view key) {
  if (key.starts_with('_') || key.starts_with('@') || key.starts_with("x-")) return "";
  const Letters letters(key);
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (key.starts_with('$') == kNames[i].starts_with('$') && is_misspelling(letters, kLetters[i]))
      return kNames[i];
  return "";
}

std::string without_fragment(std::string_view uri) {
  return std::string(uri.substr(0, uri.find('#')));
}

bool is_absolute(std::string_view uri) {
  const std::size_t colon = uri.find(':');
  return colon != std::string_view::npos && uri.substr(0, colon).find('/') == std::string_view::npos;
}

// RFC 3986's resolution, without dot segments.
std::string absolute(std::string_view base, std::string_view uri) {
  if (uri.empty()) return std::string(base);
  if (is_absolute(uri)) return std::string(uri);
  std::size_t authority = base.find("://");
  authority = authority == std::string_view::npos ? 0 : authority + 3;
  if (uri.starts_with('/')) {
    const std::size_t path = base.find('/', authority);
    return std::string(base.substr(0, path)) + std::string(uri);
  }
  const std::size_t slash = base.rfind('/');
  if (slash == std::string_view::npos || slash < authority) return std::string(uri);
  return std::string(base.substr(0, slash + 1)) + std::string(uri);
}

std::string unescaped(std::string_view token) {
  std::string out;
  for (std::size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1'))
      out += token[++i] == '0' ? '~' : '/';
    else
      out += token[i];
  }
  return out;
}

}  // namespace

std::string Pointer::text() const {
  std::vector<const Step*> steps;
  for (const Step* step = step_.get(); step != nullptr; step = step->parent.step_.get())
    steps.push_back(step);
  std::string out;
  for (std::size_t i = steps.size(); i-- > 0;) {
    out += '/';
    if (steps[i]->is_index) out += std::to_string(steps[i]->index);
    for (const char c : steps[i]->key) {
      if (c == '~')
        out += "~0";
      else if (c == '/')
        out += "~1";
      else
        out += c;
    }
  }
  return out;
}

std::string_view name_of(Keyword keyword) noexcept {
  return kNames[static_cast<std::size_t>(keyword)];
}

Result<Keywords> Keywords::read(const Place& schema, Fuel& fuel) {
  constexpr std::uint64_t kKnown = 8, kCompared = 150;
  Keywords out;
  out.pointer_ = schema.pointer;
  for (const auto [key, value] : schema.value.members()) {
    if (!fuel.spend(kKnown)) return out_of_fuel(schema);
    if (const auto* at = std::ranges::find(kNames, key); at != kNames.end()) {
      out.values_[static_cast<std::size_t>(at - kNames.begin())] = value;
      continue;
    }
    if (std::ranges::binary_search(kSilent, key)) continue;
    if (std::ranges::find(kAsserting, key) != std::end(kAsserting))
      return unsupported(schema.member(key, value),
                         "The keyword \"" + std::string(key) + "\" is not served.");
    if (!fuel.spend(kCompared)) return out_of_fuel(schema);
    if (const std::string_view meant = misspelt(key); !meant.empty())
      return unsupported(schema.member(key, value), "The keyword \"" + std::string(key) +
                                                        "\" is unknown and would go unenforced; is \"" +
                                                        std::string(meant) + "\" meant?");
  }
  return out;
}

bool Keywords::has_any() const noexcept {
  return std::ranges::any_of(values_, [](JsonView value) { return static_cast<bool>(value); });
}

Keywords Keywords::only(std::initializer_list<Keyword> these) const {
  Keywords out;
  out.pointer_ = pointer_;
  for (const Keyword which : these) out.values_[static_cast<std::size_t>(which)] = (*this)[which];
  return out;
}

Keywords Keywords::without(std::initializer_list<Keyword> these) const {
  Keywords out = *this;
  for (const Keyword which : these) out.values_[static_cast<std::size_t>(which)] = {};
  return out;
}

namespace {

// Keywords whose values are schemas, or arrays of them. In the values of others $id and $anchor mean nothing.
bool holds_schemas(std::string_view keyword) noexcept {
  constexpr std::string_view kHolders[] = {"additionalItems",
                                           "additionalProperties",
                                           "allOf",
                                           "anyOf",
                                           "contains",
                                           "else",
                                           "if",
                                           "items",
                                           "not",
                                           "oneOf",
                                           "prefixItems",
                                           "propertyNames",
                                           "then",
                                           "unevaluatedItems",
                                           "unevaluatedProperties"};
  return std::ranges::binary_search(kHolders, keyword);
}

// Keywords whose values are data: what stands there is no schema.
bool holds_data(std::string_view keyword) noexcept {
  constexpr std::string_view kData[] = {"const", "default", "enum", "example", "examples"};
  return std::ranges::binary_search(kData, keyword);
}

bool maps_names_to_schemas(std::string_view keyword) noexcept {
  constexpr std::string_view kMaps[] = {"$defs",      "definitions",      "dependencies",
                                        "properties", "dependentSchemas", "patternProperties"};
  return std::ranges::find(kMaps, keyword) != std::end(kMaps);
}

}  // namespace

Result<void> SchemaDocument::index(const Place& at, Role role, std::size_t resource) {
  if (!at.value.is_object() && !at.value.is_array()) return {};
  if (!fuel_->spend(8 + 8 * std::uint64_t{at.value.size()})) return out_of_fuel(at);
  if (role == Role::schema && at.value.is_object()) {
    for (const std::string_view name : {"$id", "id"}) {
      const JsonView id = at.value.find(name);
      if (!id.is_string() || id.text().starts_with('#') || at.pointer.is_root()) continue;
      if (!fuel_->spend(64 + id.text().size())) return out_of_fuel(at);
      Resource inner{at, absolute(resources_[resource].uri, without_fragment(id.text())), resource,
                     name == "id"};
      resource = resources_.size();
      if (!inner.is_draft_4) resources_by_uri_.emplace(inner.uri, resource);
      resources_.push_back(std::move(inner));
    }
    for (const std::string_view name : {"$anchor", "$dynamicAnchor"})
      if (const JsonView anchor = at.value.find(name); anchor.is_string() && fuel_->spend(64))
        anchors_.emplace(std::pair(resource, anchor.text()), at);
    if (const JsonView anchor = at.value.find("$dynamicAnchor"); anchor.is_string() && fuel_->spend(64))
      ++dynamic_anchors_[anchor.text()];
  }
  std::uint32_t i = 0;
  for (const auto [key, value] : at.value.members()) {
    if (at.value.is_array()) {
      if (auto ok = index(at.item(i++, value), Role::schema, resource); !ok) return ok;
      continue;
    }
    const bool is_map = role == Role::schema && maps_names_to_schemas(key);
    if (role == Role::schema && !is_map && !holds_schemas(key)) continue;
    if (auto ok = index(at.member(key, value), is_map ? Role::schemas_by_name : Role::schema, resource); !ok)
      return ok;
  }
  return {};
}

Result<void> SchemaDocument::index() {
  if (!resources_.empty()) return {};
  const JsonView id = root_.find("$id");
  resources_.push_back({root(), id.is_string() ? without_fragment(id.text()) : "", 0});
  return index(root(), Role::schema, 0);
}

Result<std::size_t> SchemaDocument::resource_of(const Place& schema) {
  if (auto ok = index(); !ok) return pass(ok);
  const char* const at = schema.value.bytes().data();
  const auto behind = std::ranges::upper_bound(
      resources_, at, {}, [](const Resource& resource) { return resource.place.value.bytes().data(); });
  auto found = static_cast<std::size_t>(behind - resources_.begin()) - 1;
  const auto contains = [&](const Resource& resource) {
    const std::string_view bytes = resource.place.value.bytes();
    return at < bytes.data() + bytes.size();
  };
  while (found != 0 && !contains(resources_[found])) found = resources_[found].parent;
  return found;
}

Result<Place> SchemaDocument::member(const Place& object, std::string_view key) {
  constexpr std::uint32_t kFew = 16;
  if (object.value.size() <= kFew) {
    for (const auto [name, value] : object.value.members())
      if (name == key) return object.member(name, value);
    return Place{};
  }
  const auto [at, is_new] = members_.try_emplace(object.value.bytes().data());
  if (is_new) {
    if (!fuel_->spend(32 * std::uint64_t{object.value.size()})) return out_of_fuel(object);
    for (const auto [name, value] : object.value.members()) at->second.emplace(name, Member{name, value});
  }
  const auto found = at->second.find(key);
  return found == at->second.end() ? Place{} : object.member(found->second.key, found->second.value);
}

Result<Place> SchemaDocument::item(const Place& array, std::uint32_t index) {
  if (index >= array.value.size()) return Place{};
  const auto [at, is_new] = items_.try_emplace(array.value.bytes().data());
  if (is_new) {
    if (!fuel_->spend(8 * std::uint64_t{array.value.size()})) return out_of_fuel(array);
    for (const auto [_, value] : array.value.members()) at->second.push_back(value);
  }
  return array.item(index, at->second[index]);
}

Result<Place> SchemaDocument::follow(Place from, std::string_view pointer, const Place& reference) {
  bool is_data = false, is_indexed = true;
  Role role = Role::schema;
  while (from.value && !pointer.empty()) {
    pointer.remove_prefix(1);  // the slash
    const std::size_t end = std::min(pointer.find('/'), pointer.size());
    const std::string token = unescaped(pointer.substr(0, end));
    pointer.remove_prefix(end);
    Result<Place> next = Place{};
    if (from.value.is_object()) {
      is_data |= role == Role::schema && holds_data(token);
      const bool is_map = role == Role::schema && maps_names_to_schemas(token);
      is_indexed &= role != Role::schema || is_map || holds_schemas(token);
      role = is_map ? Role::schemas_by_name : Role::schema;
      next = member(from, token);
    } else if (from.value.is_array()) {
      role = Role::schema;
      std::uint32_t index = 0;
      const auto [at, error] = std::from_chars(token.data(), token.data() + token.size(), index);
      if (error == std::errc() && at == token.data() + token.size()) next = item(from, index);
    }
    if (!next) return next;
    from = *std::move(next);
  }
  if (is_indexed || !from.value) return from;
  // Resources here are not indexed, so references within them could start from a wrong one.
  if (!fuel_->spend(1 + from.value.bytes().size() / 16)) return out_of_fuel(reference);
  const auto has = [&](std::string_view key) {
    return from.value.bytes().find(key) != std::string_view::npos;
  };
  if (is_data && (has("$ref") || has("$dynamic")))
    return unsupported(reference,
                       "A reference to data (const, enum, default, examples) that holds references "
                       "is not served.");
  if (has("$id") || has("$anchor") || has("$dynamicAnchor"))
    return unsupported(
        reference,
        "A reference to what stands below a key that JSON Schema does not know, and has an $id "
        "or an anchor in it, is not served.");
  return from;
}

Result<Place> SchemaDocument::resolve_dynamic(const Place& place) {
  auto target = resolve(place);
  if (!target) return target;
  const std::string_view reference = place.value.text();
  const std::size_t hash = reference.find('#');
  if (hash == std::string_view::npos) return target;
  const auto name = percent_decoded(reference.substr(hash + 1));
  const auto anchor = name ? dynamic_anchors_.find(*name) : dynamic_anchors_.end();
  if (anchor != dynamic_anchors_.end() && anchor->second > 1)
    return unsupported(place, "A $dynamicRef is served where one $dynamicAnchor has its name; " +
                                  std::to_string(anchor->second) + " have \"" + *name + "\".");
  return target;
}

Result<Place> SchemaDocument::resolve(const Place& place) {
  if (!place.value.is_string()) return malformed(place, "A reference is a string.");
  const std::string_view reference = place.value.text();
  if (!fuel_->spend(64 + reference.size())) return out_of_fuel(place);
  const auto unknown = [&] {
    return malformed(place, "The reference \"" + std::string(reference) + "\" names nothing.");
  };
  const auto own = resource_of(place);
  if (!own) return pass(own);
  std::size_t resource = *own;
  for (std::size_t around = resource;; around = resources_[around].parent) {
    if (resources_[around].is_draft_4)
      return unsupported(place, "A reference within a schema that \"id\" names is not served; \"$id\" is.");
    if (around == resources_[around].parent) break;
  }
  const std::string document = without_fragment(reference);
  if (const std::string uri = absolute(resources_[resource].uri, document); uri != resources_[resource].uri) {
    const auto at = resources_by_uri_.find(uri);
    if (uri == resources_[0].uri)
      resource = 0;
    else if (at != resources_by_uri_.end())
      resource = at->second;
    else
      return unsupported(place, "The reference \"" + std::string(reference) + "\" leads out of the schema.");
  }
  const std::size_t hash = reference.find('#');
  if (hash == std::string_view::npos) return resources_[resource].place;
  const auto fragment = percent_decoded(reference.substr(hash + 1));
  if (!fragment) return unknown();
  if (!fragment->empty() && !fragment->starts_with('/')) {
    const auto at = anchors_.find({resource, *fragment});
    if (at == anchors_.end()) return unknown();
    return at->second;
  }
  auto target = follow(resources_[resource].place, *fragment, place);
  if (target && !target->value) return unknown();
  return target;
}

}  // namespace flyball::grammar
