// One request inside the engine thread: its sampler, its text, its client and its times. Its tokens are the
// scheduler's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "backends/decode/sampler.hpp"
#include "backends/engine/answer.hpp"
#include "backends/engine/constrained_text.hpp"
#include "backends/engine/delivery.hpp"
#include "backends/engine/prepare.hpp"
#include "backends/kv/kv_accountant.hpp"

namespace flyball::engine {

class Sequence {
 public:
  Sequence(PreparedRequest request, const TextModel& model, std::shared_ptr<Delivery> to, TimePoint arrived);

  // First, where the request has a constraint. Fails as ConstrainedText::begin does.
  Result<void> begin_constraint(AutomatonCache& automata);
  // Tokens of a stream that began elsewhere, as if sampled here. What they release beyond what the client has
  // is in `text`; a finish means that there is nothing left to compute. Fails as ConstrainedText::accept
  // does.
  Result<Answer::Step> replay();
  // Makes the mask of its next token, if that is to be drawn: before sample(), while the device computes the
  // row.
  void make_mask() noexcept {
    if (constrained_ && !end_ && !forced()) constrained_->make_mask();
  }
  // How many of its next row's likeliest tell sample() as much as the whole row does; 0: only that does.
  std::uint32_t candidates() const noexcept;
  bool wants_exp_sum() const noexcept { return request_.sampling.top_logprobs >= 0; }
  // Most forced tokens behind one that a row gives. The next step computes as many of them as its budget
  // allows, and others wait for it.
  static constexpr std::uint32_t kMostForced = 32;
  // The next token, from its row of logits, or from candidates() of it (finite), and behind it those of which
  // the constraint leaves no choice. The event gets them, and their logprobs. Fails where the constraint
  // leaves no way on.
  Result<Answer::Step> sample(std::span<const float> logits, decode::SamplerScratch& scratch, Delta& delta);
  Result<Answer::Step> sample(const decode::Candidates& row, decode::SamplerScratch& scratch, Delta& delta);
  // The next tokens of the prompt that is echoed, as many as there are rows (Echo::next). known: all tokens
  // of the sequence.
  Delta echo(std::span<const Token> known, const LogitRows& rows) {
    return echo_->next(known.first(n_prompt_), rows);
  }
  // The answer ends before its first token, once the prompt is scored.
  void end_behind_echo(FinishReason reason) noexcept { end_ = reason; }
  // How it ends before its next token; nullopt: it goes on, or its prompt is not scored yet.
  std::optional<FinishReason> end() const noexcept { return echo_ && !echo_->over() ? std::nullopt : end_; }
  Done done(FinishReason reason) const;

  // Most tokens it may come to.
  std::uint32_t most() const noexcept { return n_prompt_ + request_.max_tokens; }
  std::uint32_t prompt_tokens() const noexcept { return n_prompt_; }
  bool behind() const noexcept { return request_.behind; }
  // Positions [from, to) of the prompt whose rows of logits echo() needs.
  struct Scored {
    std::uint32_t from = 0, to = 0;
  };
  Scored scored() const noexcept;
  const std::optional<AnswerForm>& form() const noexcept { return request_.form; }
  const std::string& owner() const noexcept { return request_.owner; }
  const config::RequestSettings& settings() const noexcept { return request_.settings; }
  // The name under which all of its tokens but the last are kept; "": it is no kept prefix.
  const std::string& kept() const noexcept { return request_.kept; }
  std::uint64_t kept_limit() const noexcept { return request_.kept_limit; }
  std::span<const Token> kept_tokens() const noexcept { return std::span(tokens_).first(n_prompt_ - 1); }
  // The prompt and what replay() added. Once, before the first sample().
  std::vector<Token> take_tokens() noexcept { return std::move(tokens_); }
  Delivery& delivery() noexcept { return *delivery_; }

  kv::SequenceId id = 0;  // set by the engine when it is submitted
  // Set by the engine, for the timings and the usage.
  TimePoint first_step{}, first_token{}, last_token{};
  bool counted = false;             // its prompt, in the engine's totals
  std::uint32_t cached_tokens = 0;  // of the prompt, when its first step began
  // The kept prefix that those begin with, and how many are its.
  std::string prefix;
  std::uint32_t prefix_tokens = 0;

 private:
  Result<Answer::Step> accept(Token token);
  std::optional<Token> forced() noexcept;
  Result<Answer::Step> add_forced(Result<Answer::Step> step, Delta& delta);
  template <class Row>
  Result<Answer::Step> take(Token token, const Row& row, Delta& delta);

  PreparedRequest request_;
  const TextModel* model_;
  std::shared_ptr<Delivery> delivery_;
  TimePoint arrived_;
  std::uint32_t n_prompt_;
  std::vector<Token> tokens_;
  decode::Sampler sampler_;
  Answer answer_;
  std::optional<Echo> echo_;
  std::optional<ConstrainedText> constrained_;
  std::optional<FinishReason> end_;
};

}  // namespace flyball::engine
