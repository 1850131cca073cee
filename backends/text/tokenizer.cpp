// Which tokenizer a file asks for, and what all have in common.
#include "backends/text/tokenizer.hpp"

#include <algorithm>
#include <string>

#include "backends/text/bpe.hpp"
#include "backends/text/spm.hpp"
#include "backends/text/unicode.hpp"

namespace flyball::text {

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const model::Gguf& file) {
  constexpr std::string_view kModelKey = "tokenizer.ggml.model";
  auto model = file.get_string(kModelKey);
  if (!model) return pass(model);
  if (!*model) return vocabulary_error(kModelKey, "is missing");
  if (**model == "gpt2") return BpeTokenizer::load(file);
  if (**model == "llama") return SpmTokenizer::load(file);
  return fail(ErrorCode::unsupported_value,
              "tokenizer.ggml.model is '" + model::printable(**model) + "'; this build knows gpt2 and llama",
              {}, std::string(kModelKey));
}

std::string_view Tokenizer::bytes(Token token, bool render_special) const noexcept {
  switch (kind(token)) {
    case TokenKind::control:
    case TokenKind::unknown:
      return render_special ? piece(token) : std::string_view{};
    case TokenKind::user_defined:
      return piece(token);
    case TokenKind::unused:
      return {};
    case TokenKind::byte:
      if (const auto byte = parse_byte_piece(piece(token))) return byte_view(*byte);
      return piece(token);
    case TokenKind::normal:
      break;
  }
  return normal_bytes(token);
}

bool Tokenizer::is_end_of_generation(Token token) const noexcept {
  return std::ranges::binary_search(end_of_generation_, token);
}

}  // namespace flyball::text
