// JSON Schema 2020-12 to a grammar. Every word of the grammar validates. Each valid instance is a word if it
// is written as JSON.stringify writes it, with keys in the order in which the schema declares them and others
// behind those; exceptions are numbers of more than 21 digits before the point or 24 behind it (15 together
// for multipleOf, beyond which doubles round), and rare forms of a format. A multiple is one in decimals: 0.3
// is a multiple of 0.1, though the quotient of the doubles is no integer.
//
// unevaluatedProperties and unevaluatedItems follow every keyword that evaluates: $ref, allOf, anyOf, oneOf,
// if and dependentSchemas split the values by what they evaluate. Beside "contains", unevaluatedItems has to
// be false. uniqueItems takes items of at most 8 values in all. A $dynamicRef is a $ref while one
// $dynamicAnchor has its name. Counts of contains take at most 1,500 rules of the grammar.
//
// "x-key-order": "any" at the top of a schema lets keys come in any order. A required key comes once then,
// and others may come again. An object of more than 9 required keys, or with counted members, keeps the
// declared order.
//
// It also takes forms of older drafts: items as an array, additionalItems, dependencies and boolean
// exclusiveMinimum and -Maximum. Formats that are enforced: date, time, date-time, duration, email, hostname,
// ipv4, ipv6, iri, iri-reference, json-pointer, regex, relative-json-pointer, uri, uri-reference,
// uri-template, uuid. Others are annotations, as are unknown keywords that are no misspelt ones. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "backends/grammar/fuel.hpp"
#include "backends/grammar/grammar.hpp"
#include "config/error.hpp"
#include "config/packed_json.hpp"

namespace flyball::grammar {

struct JsonOptions {
  enum class Whitespace : std::uint8_t {
    none,
    // A space, or a line end and at most 32 spaces or 8 tabs, may stand behind {, [ and a comma and before }
    // and ]; a space behind a colon. That is how models write JSON, on one line or indented; a bound on it
    // keeps an answer from going on with blanks alone.
    flexible,
  };
  Whitespace whitespace = Whitespace::flexible;
};

// Errors have the JSON pointer of the place in Error::where ("" is the whole schema): unsupported_feature for
// a keyword, or a use of it, that cannot be enforced exactly; invalid_value for malformed schemas and those
// that no value satisfies; unsupported_value past the limits.
Result<Grammar> from_json_schema(JsonView schema, const JsonOptions& options, const Limits& limits,
                                 Fuel& fuel);

// A rule of a grammar, which is to have the values of a schema as its words.
struct SchemaRule {
  RuleId rule{};
  JsonView schema;
  std::string pointer;  // of the schema in its document: errors have it in front of their own
};
// Defines rules of `grammar` whose others are defined already. The schemas share the parts that every schema
// has. Errors are those of from_json_schema; the grammar is lost with them.
Result<void> define_schemas(Grammar& grammar, std::span<const SchemaRule> schemas, const JsonOptions& options,
                            const Limits& limits, Fuel& fuel);

// Any JSON object.
Result<Grammar> any_json_object(const JsonOptions& options, const Limits& limits, Fuel& fuel);

}  // namespace flyball::grammar
