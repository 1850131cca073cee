#include "backends/engine/sequence.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "backends/engine/token_logprob.hpp"

namespace flyball::engine {

Sequence::Sequence(PreparedRequest request, const TextModel& model, std::shared_ptr<Delivery> to,
                   TimePoint arrived)
    : request_(std::move(request)),
      model_(&model),
      delivery_(std::move(to)),
      arrived_(arrived),
      n_prompt_(static_cast<std::uint32_t>(request_.prompt.size())),
      tokens_(std::move(request_.prompt)),
      sampler_(request_.sampling, model.vocab_size),
      answer_(*model.tokenizer, request_.stop, request_.ignore_eos, request_.max_tokens,
              request_.resume_text_bytes, request_.marks_control) {
  sampler_.accept_prompt(tokens_);
  if (request_.echo) echo_.emplace(*model.tokenizer, *request_.echo, tokens_);
  if (request_.empty_answer) end_ = FinishReason::length;
}

Sequence::Scored Sequence::scored() const noexcept {
  if (!echo_ || echo_->over() || !request_.echo->scores()) return {};
  return {std::max(echo_->sent(), 1U) - 1, n_prompt_ - 1};  // the first token has no row
}

Result<void> Sequence::begin_constraint(AutomatonCache& automata) {
  if (!request_.constraint) return {};
  auto begun = ConstrainedText::begin(automata.play(*request_.constraint), *model_->tokenizer);
  if (!begun) return pass(begun);
  constrained_.emplace(std::move(*begun));
  return {};
}

Result<Answer::Step> Sequence::replay() {
  Answer::Step all;
  for (const Token token : request_.resume_tokens) {
    tokens_.push_back(token);
    auto step = accept(token);
    if (!step) return step;
    all.append(std::move(*step));
    if (all.finish) return all;
  }
  if (constrained_ && constrained_->is_over()) all.finish = FinishReason::stop;
  return all;
}

Result<Answer::Step> Sequence::accept(Token token) {
  sampler_.accept(token);
  if (!constrained_) return answer_.accept(token);
  const auto is_over = constrained_->accept(token);
  if (!is_over) return pass(is_over);
  return answer_.accept(token, *is_over);
}

// Logprobs are of the model's own row for each token; a bias may ask for another token of the same text.
std::optional<Token> Sequence::forced() noexcept {
  const SamplingParams& sampling = request_.sampling;
  if (!constrained_ || sampling.top_logprobs >= 0 || !sampling.logit_bias.empty()) return std::nullopt;
  return constrained_->forced();
}

// Each one is taken as if it were drawn, so that an answer resumed between them goes on alike.
Result<Answer::Step> Sequence::add_forced(Result<Answer::Step> step, Delta& delta) {
  for (std::uint32_t n = 0; n < kMostForced && step && !step->finish; ++n) {
    const auto token = forced();
    if (!token) break;
    auto next = accept(*token);
    if (!next) return next;
    step->append(std::move(*next));
    delta.tokens.push_back(*token);
  }
  return step;
}

std::uint32_t Sequence::candidates() const noexcept {
  if (constrained_) return 0;  // any of them may be masked
  const std::uint32_t n = sampler_.candidates();
  const std::int32_t top_logprobs = request_.sampling.top_logprobs;
  return n == 0 || top_logprobs < 0 ? n : std::max(n, static_cast<std::uint32_t>(top_logprobs));
}

Result<Answer::Step> Sequence::sample(std::span<const float> logits, decode::SamplerScratch& scratch,
                                      Delta& delta) {
  if (!constrained_) return take(sampler_.sample(logits, scratch), logits, delta);
  if (const auto token = forced()) return add_forced(take(*token, logits, delta), delta);
  if (!constrained_->mask()) return pass(constrained_->mask());
  return add_forced(take(sampler_.sample(logits, *constrained_->mask(), scratch), logits, delta), delta);
}
Result<Answer::Step> Sequence::sample(const decode::Candidates& row, decode::SamplerScratch& scratch,
                                      Delta& delta) {
  return take(sampler_.sample(row, scratch), row, delta);
}

template <class Row>
Result<Answer::Step> Sequence::take(Token token, const Row& row, Delta& delta) {
  auto step = accept(token);
  if (!step) return step;
  delta.tokens.push_back(token);
  if (const std::int32_t n_top = request_.sampling.top_logprobs; n_top >= 0)
    // The end token as well: usage counts it.
    delta.logprobs.push_back(token_logprob(*model_->tokenizer, row, token, n_top));
  return step;
}

Done Sequence::done(FinishReason reason) const {
  const auto us = [](TimePoint from, TimePoint to) -> std::uint64_t {
    if (to <= from) return 0;  // also where a resumed answer needed no step
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(to - from).count());
  };
  Done done;
  done.reason = reason;
  done.usage.prompt_tokens = request_.kept.empty() ? n_prompt_ : n_prompt_ - 1;
  done.usage.completion_tokens = answer_.tokens();
  done.usage.cached_tokens = cached_tokens;
  done.kept = prefix;
  done.kept_tokens = prefix_tokens;
  done.timings.queue_us = us(arrived_, first_step);
  done.timings.prefill_us = us(first_step, first_token);
  done.timings.decode_us = us(first_token, last_token);
  done.timings.compile_us = request_.compile_us;
  if (constrained_) done.timings.mask_us = constrained_->mask_us();
  done.stop_text = answer_.stop_text();
  return done;
}

}  // namespace flyball::engine
