// Metadata keys that GGUF has not, beside tokenizer.ggml.model "llama", for what a tokenizer.json says.
#pragma once

#include <string_view>

namespace flyball::model {

// Merges in order of rank, "left right"; without them scores rank what two neighbours make.
inline constexpr std::string_view kMergesKey = "flyball.tokenizer.merges";
// The space before a text stands at its beginning only, not after each special token.
inline constexpr std::string_view kPrefixOnceKey = "flyball.tokenizer.space_prefix_once";
// No space is put before a text that begins with one.
inline constexpr std::string_view kPrefixIfNoneKey = "flyball.tokenizer.space_prefix_if_none";
// Ids of all tokens that end a generation, beside those known by their text.
inline constexpr std::string_view kEndsKey = "flyball.tokenizer.end_token_ids";

}  // namespace flyball::model
