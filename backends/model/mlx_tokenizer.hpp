// tokenizer.json and tokenizer_config.json of an MLX directory as GGUF's vocabulary: tokens, kinds, merges,
// the pre-tokenizer's name, special tokens. Of what Hugging Face's tokenizers can say, two patterns are
// known: byte-level BPE over a published split, and LLaMA's BPE with byte fallback. Any other part is refused
// by name.
#pragma once

#include <cstdint>

#include "backends/model/gguf_writer.hpp"
#include "backends/model/mlx_json.hpp"

namespace flyball::model {

// vocab_size: rows of the embedding table; tokens that no text makes fill up to it. config and generation
// name the tokens that end a generation. model_invalid, model_unsupported.
Result<void> translate_mlx_tokenizer(const MlxObject& tokenizer, const MlxObject& tokenizer_config,
                                     const MlxObject& config, const MlxObject& generation,
                                     std::uint64_t vocab_size, GgufWriter& out);

}  // namespace flyball::model
