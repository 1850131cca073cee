#include "backends/local/text_model.hpp"

#include <string>
#include <utility>

namespace flyball::local {
namespace {

// The template of the file, or ChatML where it has none.
Result<text::ChatTemplate> load_chat_template(const model::Gguf& file) {
  auto source = file.get_string("tokenizer.chat_template");
  if (!source) return pass(source);
  return text::ChatTemplate::parse(source->value_or(text::default_chat_template()));
}

}  // namespace

Result<engine::TextModel> load_text_model(const model::ModelFile& model, std::uint32_t context) {
  const std::uint32_t rows = model.config().vocab_size;
  auto tokenizer = text::Tokenizer::load(model.gguf());
  if (!tokenizer) return pass(tokenizer);
  if ((*tokenizer)->vocab_size() > rows)
    return fail(ErrorCode::model_invalid, "The tokenizer has " + std::to_string((*tokenizer)->vocab_size()) +
                                              " tokens, the embedding table " + std::to_string(rows) +
                                              " rows.");
  return engine::make_text_model(std::move(*tokenizer), load_chat_template(model.gguf()), rows, context);
}

}  // namespace flyball::local
