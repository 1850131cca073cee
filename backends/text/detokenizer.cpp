// Holding back what may still become a character.
#include "backends/text/detokenizer.hpp"

#include "backends/text/unicode.hpp"

namespace flyball::text {

std::string_view Detokenizer::bytes(Token token) const noexcept {
  std::string_view bytes = tokenizer_->bytes(token, render_special_);
  // The space stands before the text, and so behind a BOS.
  if (at_start_ && bytes.starts_with(' ') && tokenizer_->kind(token) != TokenKind::control)
    bytes.remove_prefix(1);
  return bytes;
}

std::string Detokenizer::push(Token token) {
  pending_.append(bytes(token));
  if (tokenizer_->kind(token) != TokenKind::control && !tokenizer_->bytes(token, render_special_).empty())
    at_start_ = false;

  std::string out;
  std::size_t at = 0;
  while (at < pending_.size()) {
    const Utf8Step step = utf8_step(pending_, at);
    if (step.kind == Utf8Step::Kind::incomplete) break;
    if (step.kind == Utf8Step::Kind::valid) {
      out.append(pending_, at, step.length);
    } else {
      out.append(kReplacement);
    }
    at += step.length;
  }
  pending_.erase(0, at);
  return out;
}

std::string Detokenizer::finish() {
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(kReplacement);
}

}  // namespace flyball::text
