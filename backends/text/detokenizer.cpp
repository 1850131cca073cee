// Holding back what may still become a character.
#include "backends/text/detokenizer.hpp"

#include "backends/text/unicode.hpp"

namespace flyball::text {

std::string Detokenizer::push(Token token) {
  std::string_view bytes = tokenizer_->bytes(token, render_special_);
  // The space stands before the text, and so behind a BOS.
  if (at_start_ && !bytes.empty() && tokenizer_->kind(token) != TokenKind::control) {
    at_start_ = false;
    if (bytes.front() == ' ') bytes.remove_prefix(1);
  }
  pending_.append(bytes);

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
