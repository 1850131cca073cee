#include "backends/engine/answer.hpp"

#include <algorithm>
#include <utility>

namespace flyball::engine {

Answer::Answer(const text::Tokenizer& tokenizer, std::vector<std::string> stops, bool ignore_eos,
               std::uint32_t max_tokens, std::uint64_t skip_bytes)
    : tokenizer_(&tokenizer),
      detokenizer_(tokenizer),
      stops_(std::move(stops)),
      ignore_eos_(ignore_eos),
      max_tokens_(max_tokens),
      skip_bytes_(skip_bytes) {}

Answer::Step Answer::accept(Token token, bool is_last) {
  ++n_tokens_;
  Step step;
  const bool end_token = !ignore_eos_ && tokenizer_->is_end_of_generation(token);  // it stands for no text
  std::string text = end_token ? std::string() : detokenizer_.push(token);
  if (end_token || is_last) {
    step.finish = FinishReason::stop;
  } else if (n_tokens_ == max_tokens_) {
    step.finish = FinishReason::length;
  }
  // A character that max_tokens cuts is left out; one that the model leaves unfinished shows.
  if (step.finish == FinishReason::stop) text += detokenizer_.finish();

  auto released = stops_.push(text);
  if (released.stop != nullptr) {
    step.finish = FinishReason::stop;
    stop_text_ = *released.stop;
  } else if (step.finish) {
    released.text += stops_.finish();
  }
  step.text = skip(std::move(released.text));
  return step;
}

std::string Answer::skip(std::string text) {
  if (skip_bytes_ == 0) return text;
  const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(skip_bytes_, text.size()));
  skip_bytes_ -= n;
  return text.substr(n);
}

}  // namespace flyball::engine
