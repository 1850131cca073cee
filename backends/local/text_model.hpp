// The text side of a model file, without its weights: tokenizer and chat template.
#pragma once

#include <cstdint>

#include "backends/engine/prepare.hpp"
#include "backends/model/model_file.hpp"
#include "config/error.hpp"

namespace flyball::local {

// context: tokens of one sequence. model_invalid: the vocabulary cannot be read, or has more tokens than the
// embedding table has rows. A template that cannot be parsed is told to those who chat.
Result<engine::TextModel> load_text_model(const model::ModelFile& model, std::uint32_t context);

}  // namespace flyball::local
