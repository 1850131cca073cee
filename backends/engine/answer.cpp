#include "backends/engine/answer.hpp"

#include <algorithm>
#include <utility>

namespace flyball::engine {

Answer::Answer(const text::Tokenizer& tokenizer, std::vector<std::string> stops, bool ignore_eos,
               std::uint32_t max_tokens, std::uint64_t skip_bytes, bool marks_control)
    : tokenizer_(&tokenizer),
      detokenizer_(tokenizer),
      stops_(std::move(stops)),
      ignore_eos_(ignore_eos),
      marks_control_(marks_control),
      max_tokens_(max_tokens),
      skip_bytes_(skip_bytes) {}

Answer::Step Answer::accept(Token token, bool is_last) {
  ++n_tokens_;
  Step step;
  const bool end_token = !ignore_eos_ && tokenizer_->is_end_of_generation(token);  // it stands for no text
  if (end_token || is_last) {
    step.finish = FinishReason::stop;
  } else if (n_tokens_ == max_tokens_) {
    step.finish = FinishReason::length;
  }
  const bool marked = marks_control_ && !end_token && tokenizer_->kind(token) == text::TokenKind::control;
  std::string text = end_token || marked ? std::string() : detokenizer_.push(token);
  // A character that max_tokens cuts is left out; one that the model leaves unfinished shows.
  if (step.finish == FinishReason::stop || marked) text += detokenizer_.finish();

  auto released = stops_.push(text);
  if (released.stop != nullptr) {
    step.finish = FinishReason::stop;
    stop_text_ = *released.stop;
  } else if (step.finish || marked) {
    released.text += stops_.finish();
  }
  if (marked && released.stop == nullptr) {
    const auto begin = static_cast<std::uint32_t>(released.text.size());
    released.text += tokenizer_->bytes(token, true);
    if (released.text.size() > begin)
      step.control.push_back({begin, static_cast<std::uint32_t>(released.text.size())});
  }
  step.text = skip(std::move(released.text), step.control);
  return step;
}

std::string Answer::skip(std::string text, std::vector<ControlSpan>& control) {
  if (skip_bytes_ == 0) return text;
  const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(skip_bytes_, text.size()));
  skip_bytes_ -= n;
  for (ControlSpan& span : control) span = {std::max(span.begin, n) - n, std::max(span.end, n) - n};
  std::erase_if(control, [](const ControlSpan& span) { return span.begin == span.end; });
  return text.substr(n);
}

void Answer::Step::append(Step next) {
  const auto at = static_cast<std::uint32_t>(text.size());
  text += next.text;
  for (const ControlSpan& span : next.control) control.push_back({at + span.begin, at + span.end});
  finish = next.finish;
}

}  // namespace flyball::engine
