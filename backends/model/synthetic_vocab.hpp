// The vocabulary of synthetic models: byte-level BPE ("gpt2") with a few merges of English, ChatML's control
// tokens, and distinct words as padding up to any size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/model/gguf_writer.hpp"

namespace flyball::model {

struct SyntheticVocab {
  static constexpr std::int32_t kNormal = 1, kControl = 3;  // tokenizer.ggml.token_type
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  std::vector<std::string> merges;
  std::uint32_t end_of_text = 0, im_start = 0, im_end = 0;  // im_end is EOS
};

// infill: with the tokens <|fim_prefix|>, <|fim_suffix|> and <|fim_middle|>.
std::uint32_t min_synthetic_vocab(bool infill = false) noexcept;
// Precondition: size >= min_synthetic_vocab(infill).
SyntheticVocab make_synthetic_vocab(std::uint32_t size, bool infill = false);
// tokenizer.* keys. `chat_template`: its source; "": ChatML.
void write_vocab(const SyntheticVocab& vocab, const std::string& chat_template, GgufWriter& out);

}  // namespace flyball::model
