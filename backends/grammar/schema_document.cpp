#include "backends/grammar/schema_document.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace flyball::grammar {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(Keyword::count)> kNames = {
    "$ref",
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
constexpr std::string_view kSilent[] = {"$anchor",
                                        "$comment",
                                        "$defs",
                                        "$dynamicAnchor",
                                        "$id",
                                        "$schema",
                                        "contentEncoding",
                                        "contentMediaType",
                                        "contentSchema",
                                        "default",
                                        "definitions",
                                        "deprecated",
                                        "description",
                                        "examples",
                                        "id",
                                        "readOnly",
                                        "title",
                                        "writeOnly"};

// Keywords that restrict values or lead to schemas, and are not served: no annotations whatever unknown ones
// are.
constexpr std::string_view kAsserting[] = {"$dynamicRef", "$recursiveRef", "disallow", "divisibleBy",
                                           "extends"};

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

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned value = 0;
    if (i + 2 >= text.size()) return std::nullopt;
    const auto [end, error] = std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16);
    if (error != std::errc() || end != text.data() + i + 3) return std::nullopt;
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
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

std::string Place::within(std::string_view key) const {
  std::string out = pointer + "/";
  for (const char c : key) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}

std::string_view name_of(Keyword keyword) noexcept {
  return kNames[static_cast<std::size_t>(keyword)];
}

Result<Keywords> Keywords::read(const Place& schema, bool accepts_unknown) {
  Keywords out;
  out.pointer_ = schema.pointer;
  for (const auto [key, value] : schema.value.members()) {
    if (const auto* at = std::ranges::find(kNames, key); at != kNames.end()) {
      out.values_[static_cast<std::size_t>(at - kNames.begin())] = value;
      continue;
    }
    if (std::ranges::binary_search(kSilent, key) || key.starts_with("x-")) continue;
    if (accepts_unknown && std::ranges::find(kAsserting, key) == std::end(kAsserting)) continue;
    return fail(ErrorCode::unsupported_feature, "The keyword \"" + std::string(key) + "\" is not served.", {},
                schema.within(key));
  }
  for (const char* name : {"$id", "id"}) {
    const JsonView id = schema.value.find(name);
    if (!id.is_string() || id.text().starts_with('#') || schema.pointer.empty()) continue;
    // References within it would start from it; they are looked up from the root.
    if (schema.value.bytes().find("$ref") != std::string_view::npos)
      return fail(ErrorCode::unsupported_feature,
                  "A schema with an $id of its own and references is not served.", {}, schema.within(name));
  }
  return out;
}

bool Keywords::has_any() const noexcept {
  return std::ranges::any_of(values_, [](JsonView value) { return static_cast<bool>(value); });
}

Result<void> SchemaDocument::index(const Place& at, Fuel& fuel) {
  if (!fuel.spend(8 + at.pointer.size() / 16))
    return fail(ErrorCode::unsupported_value, "The schema takes more work than one constraint may cost.");
  if (at.value.is_object()) {
    for (const std::string_view name : {"$anchor", "$dynamicAnchor"})
      if (const JsonView anchor = at.value.find(name); anchor.is_string())
        anchors_.emplace(anchor.text(), at);
    if (const JsonView id = at.value.find("$id"); id.is_string() && !at.pointer.empty()) {
      const JsonView base = root_.find("$id");
      resources_.emplace(
          absolute(base.is_string() ? without_fragment(base.text()) : "", without_fragment(id.text())), at);
    }
  }
  if (at.value.is_object() || at.value.is_array()) {
    std::uint32_t i = 0;
    for (const auto [key, value] : at.value.members()) {
      const bool is_data = at.value.is_object() && (key == "enum" || key == "const") &&
                           at.pointer.find("properties") == std::string::npos;
      const Place member{value, at.within(at.value.is_array() ? std::to_string(i) : std::string(key))};
      ++i;
      if (is_data) continue;
      if (auto ok = index(member, fuel); !ok) return ok;
    }
  }
  return {};
}

JsonView SchemaDocument::member(JsonView object, std::string_view key, Fuel& fuel) {
  constexpr std::uint32_t kFew = 16;
  if (object.size() <= kFew) return object.find(key);
  const auto [at, is_new] = members_.try_emplace(object.bytes().data());
  if (is_new && fuel.spend(8 * std::uint64_t{object.size()}))
    for (const auto [name, value] : object.members()) at->second.emplace(name, value);
  const auto found = at->second.find(key);
  return found == at->second.end() ? JsonView() : found->second;
}

Place SchemaDocument::follow(Place from, std::string_view pointer, Fuel& fuel) {
  while (from.value && !pointer.empty()) {
    pointer.remove_prefix(1);  // the slash
    const std::size_t end = std::min(pointer.find('/'), pointer.size());
    const std::string token = unescaped(pointer.substr(0, end));
    pointer.remove_prefix(end);
    std::string within = from.within(token);
    JsonView next;
    if (from.value.is_object()) {
      next = member(from.value, token, fuel);
    } else if (from.value.is_array()) {
      std::uint32_t index = 0;
      const auto [at, error] = std::from_chars(token.data(), token.data() + token.size(), index);
      if (error == std::errc() && at == token.data() + token.size() && index < from.value.size()) {
        auto member = from.value.members().begin();
        for (std::uint32_t i = 0; i < index; ++i) ++member;
        next = (*member).value;
      }
    }
    from = {next, std::move(within)};
  }
  return from;
}

Result<Place> SchemaDocument::resolve(const Place& place, Fuel& fuel) {
  if (!place.value.is_string())
    return fail(ErrorCode::invalid_value, "A reference is a string.", {}, place.pointer);
  const std::string_view reference = place.value.text();
  const std::size_t hash = reference.find('#');
  const auto unknown = [&] {
    return fail(ErrorCode::invalid_value, "The reference \"" + std::string(reference) + "\" names nothing.",
                {}, place.pointer);
  };
  Place from = root();
  const std::string document = without_fragment(reference);
  const JsonView id = root_.find("$id");
  const std::string base = id.is_string() ? without_fragment(id.text()) : "";
  if (!is_indexed_) {
    is_indexed_ = true;
    if (auto ok = index(root(), fuel); !ok) return pass(ok);
  }
  bool is_root = true;
  if (!document.empty() && absolute(base, document) != base) {
    const auto at = resources_.find(absolute(base, document));
    if (at == resources_.end())
      return fail(ErrorCode::unsupported_feature,
                  "The reference \"" + std::string(reference) + "\" leads out of the schema.", {},
                  place.pointer);
    from = at->second;
    is_root = false;
  }
  if (hash == std::string_view::npos) return from;
  const auto fragment = percent_decoded(reference.substr(hash + 1));
  if (!fragment) return unknown();
  if (!fragment->empty() && !fragment->starts_with('/')) {
    const auto at = anchors_.find(*fragment);
    if (at == anchors_.end() || !is_root) return unknown();
    return at->second;
  }
  from = follow(std::move(from), *fragment, fuel);
  if (!from.value) return unknown();
  return from;
}

}  // namespace flyball::grammar
