#include "backends/constrain/constraint.hpp"

#include <array>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

#include <openssl/evp.h>

#include "backends/grammar/choice_list.hpp"
#include "backends/grammar/gbnf.hpp"
#include "backends/grammar/json_schema.hpp"
#include "backends/grammar/regex.hpp"
#include "backends/grammar/structural_tag.hpp"
#include "backends/model/pin.hpp"

namespace flyball::constrain {
namespace {

using Kind = Constraint::Kind;

Result<grammar::Grammar> read_regex(std::string_view pattern, const grammar::Limits& limits,
                                    grammar::Fuel& fuel) {
  auto words = grammar::from_regex(pattern, {.depth = limits.depth}, {&fuel});
  if (!words) return pass(words);
  grammar::Grammar out;
  const auto root = out.declare("root");
  out.define(root, out.dfa(std::move(*words)));
  return out;
}

Result<grammar::Grammar> read_choices(JsonView source, const grammar::Limits& limits, grammar::Fuel& fuel) {
  if (!fuel.spend(source.size())) return fail(ErrorCode::unsupported_value, "The list has too many choices.");
  std::vector<std::string> choices;
  for (const auto& [key, one] : source.members()) {
    if (!one.is_string())
      return fail(ErrorCode::invalid_value,
                  std::string("A choice is a ") + one.type_name() + ", not a string.", {},
                  "/" + std::to_string(choices.size()));
    choices.emplace_back(one.text());
  }
  return grammar::choice_list(choices, fuel, limits);
}

std::unexpected<Error> wrong_source(JsonView source, const char* expected) {
  return fail(ErrorCode::invalid_value, std::string("The constraint is ") +
                                            (source ? source.type_name() : "absent") + "; it must be " +
                                            expected + ".");
}

Result<grammar::Grammar> read(const Constraint& constraint, const grammar::Limits& limits,
                              grammar::Fuel& fuel) {
  const JsonView source = constraint.source.view();
  grammar::JsonOptions json;
  if (constraint.compact) json.whitespace = grammar::JsonOptions::Whitespace::none;
  switch (constraint.kind) {
    case Kind::json_object:
      return grammar::any_json_object(json, limits, fuel);
    case Kind::json_schema:
      if (!source) return wrong_source(source, "a schema");
      return grammar::from_json_schema(source, json, limits, fuel);
    case Kind::regex:
      if (!source.is_string()) return wrong_source(source, "a string");
      return read_regex(source.text(), limits, fuel);
    case Kind::gbnf:
      if (!source.is_string()) return wrong_source(source, "a string");
      return grammar::read_gbnf(source.text(), fuel, limits);
    case Kind::choice:
      if (!source.is_array()) return wrong_source(source, "an array of strings");
      return read_choices(source, limits, fuel);
    case Kind::structural_tag:
      if (!source.is_object()) return wrong_source(source, "an object");
      return grammar::from_structural_tag(source, json, limits, fuel);
  }
  return fail(ErrorCode::invalid_value, "The constraint is of no known kind.");
}

}  // namespace

Result<void> check_size(const Constraint& constraint, const grammar::Limits& limits) {
  const JsonView source = constraint.source.view();
  std::size_t bytes = 0;
  if (source.is_string()) bytes = source.text().size();
  if (source.is_array() || source.is_object()) bytes = source.json_bytes();
  if (bytes <= limits.text) return {};
  return fail(ErrorCode::unsupported_value, "The constraint has " + std::to_string(bytes) +
                                                " bytes; at most " + std::to_string(limits.text) +
                                                " are served.");
}

Result<Program> compile(const Constraint& constraint, const grammar::Limits& limits) {
  if (auto ok = check_size(constraint, limits); !ok) return pass(ok);
  grammar::Fuel fuel(limits.steps);
  auto grammar = read(constraint, limits, fuel);
  if (!grammar) return pass(grammar);
  return compile(*grammar, fuel, limits);
}

std::string digest_of(const Constraint& constraint) {
  const char kind = static_cast<char>('0' + static_cast<int>(constraint.kind));
  const char space = constraint.compact ? 'c' : 'f';
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> hash(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  std::array<unsigned char, 32> digest{};
  const std::string_view source = constraint.source.bytes();
  if (!hash || EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) != 1 ||
      EVP_DigestUpdate(hash.get(), &kind, 1) != 1 || EVP_DigestUpdate(hash.get(), &space, 1) != 1 ||
      EVP_DigestUpdate(hash.get(), source.data(), source.size()) != 1 ||
      EVP_DigestFinal_ex(hash.get(), digest.data(), nullptr) != 1)
    throw std::bad_alloc();
  return model::to_hex(digest);
}

std::string_view to_string(Kind kind) noexcept {
  constexpr std::array<std::string_view, 6> kNames{"json_object", "json_schema", "regex",
                                                   "gbnf",        "choice",      "structural_tag"};
  return kNames.at(static_cast<std::size_t>(kind));
}

}  // namespace flyball::constrain
