// Structural tags to a grammar: free text with constrained parts in it, as XGrammar, vLLM and SGLang have
// them. Two forms are read:
//   {"structures": [{"begin", "schema", "end"}], "triggers": [""]}
//     Free text in which no trigger occurs, up to a trigger. The beginning of a structure continues the
//     trigger; a document of its schema and its end follow, and then free text again. The text may end in
//     free text.
//   {"format": {}}
//     A tree of formats, each with a "type": const_string, json_schema, regex, grammar (GBNF), any_text,
//     sequence, or, optional, plus, star, repeat, tag, triggered_tags and tags_with_separator.
//
// Free text is UTF-8. At the end of a tag's content it goes up to the first of the tag's ends; elsewhere it
// stands last, or it is any_text with "excludes". It starts afresh behind what stands before it: a trigger
// that began there is none. No excluded string occurs in it and its trigger or end, read together, which
// holds as excluded strings that overlap one are refused. Triggered tags stand last, or are exactly one tag.
// Formats that count tokens or name them are refused. Pure.
#pragma once

#include "backends/grammar/fuel.hpp"
#include "backends/grammar/grammar.hpp"
#include "backends/grammar/json_schema.hpp"
#include "config/error.hpp"
#include "config/packed_json.hpp"

namespace flyball::grammar {

// `options` are those of each schema. Errors have the JSON pointer of the place in Error::where, and are
// those of from_json_schema, from_regex and read_gbnf for their parts; unsupported_feature for a format or a
// member that is not served, invalid_value for a malformed one and for triggers that cannot be told apart,
// and unsupported_value past the limits.
Result<Grammar> from_structural_tag(JsonView tag, const JsonOptions& options, const Limits& limits,
                                    Fuel& fuel);

}  // namespace flyball::grammar
