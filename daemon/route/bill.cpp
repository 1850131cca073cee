#include "daemon/route/bill.hpp"

#include <utility>

namespace flyball::route {

Bill::Bill(Limits& limits, usage::Journal& journal, std::string app, const RequestTraits& traits,
           Limits::Reservation reservation, Wanted wanted, std::span<const Prompt> prompts, std::uint32_t n,
           std::uint32_t context)
    : limits_(limits),
      journal_(journal),
      app_(std::move(app)),
      wants_answer_(wanted == Wanted::answer),
      streamed_(traits.stream),
      with_tools_(traits.has_tools),
      n_prompts_(static_cast<std::uint32_t>(prompts.size())),
      open_at_arrival_(limits.in_flight(app_)),
      reservation_(std::move(reservation)),
      in_flight_(std::make_shared<InFlight>(limits, app_, reservation_.answers)),
      meter_(prompts, n, context) {}

void Bill::received(std::size_t answer, const Delta& delta) {
  if (!wants_answer_) return;
  meter_.received(answer, delta);
  tell();
}

void Bill::done(std::size_t answer, const Usage& usage) {
  if (!wants_answer_) return;
  meter_.done(answer, usage);
  tell();
}

// While it runs, not at its end: a daemon that is killed has counted what an engine computed.
void Bill::tell() {
  const Usage now = meter_.usage();
  usage::DayUsage& total = day();
  total.prompt_tokens += std::uint64_t{now.prompt_tokens} - told_.prompt_tokens;
  total.cached_tokens += std::uint64_t{now.cached_tokens} - told_.cached_tokens;  // may fall: sums wrap
  total.generated_tokens += std::uint64_t{now.completion_tokens} - told_.completion_tokens;
  told_ = now;
}

void Bill::close(const RunState& state) {
  if (std::exchange(closed_, true)) return;
  const std::uint64_t charge = meter_.charge();
  limits_.settle(app_, reservation_, charge);
  in_flight_.reset();
  usage::DayUsage& total = day();
  ++total.requests;
  total.guessed_tokens += charge - told_.prompt_tokens - told_.completion_tokens;
  total.streamed += streamed_ ? 1 : 0;
  total.with_tools += with_tools_ ? 1 : 0;
  total.open_at_arrival.add(open_at_arrival_);
  if (state != RunState::Kind::done) {
    ++(state == RunState::Kind::cancelled ? total.cancelled : total.errors);
    return;
  }
  if (!wants_answer_) return;
  total.prompt_lengths.add(told_.prompt_tokens / n_prompts_);
  total.cached_lengths.add(told_.cached_tokens / n_prompts_);
  total.answer_lengths.add(told_.completion_tokens / reservation_.answers);
}

}  // namespace flyball::route
