#include "daemon/route/head_start.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <variant>

#include "config/units.hpp"

namespace flyball::route {
namespace {

using policy::TargetFact;

// Less is within the error of a prediction, and moving an answer is not free.
constexpr double kClearUs = 100'000;

struct Times {  // microseconds
  double ttft = 0, tpot = 0, total = 0;
};

const policy::Fact* fact_of(const policy::Target& target, TargetFact which, const policy::Facts& facts) {
  return facts.get(facts.targets()->fact_of(target.backend, which), target.profile);
}

std::optional<double> number_of(const policy::Target& target, TargetFact which, const policy::Facts& facts) {
  const policy::Fact* const fact = fact_of(target, which, facts);
  return fact == nullptr ? std::nullopt
                         : std::optional(static_cast<double>(std::get<std::int64_t>(fact->value)));
}

// false: it is not, or an upstream.
std::optional<bool> is_loaded(const policy::Target& target, const policy::Facts& facts) {
  if (facts.targets()->is_remote(target.backend)) return std::nullopt;
  const policy::Fact* const fact = fact_of(target, TargetFact::loaded, facts);
  return fact == nullptr ? std::nullopt : std::optional(std::get<bool>(fact->value));
}

std::optional<Times> times_of(const policy::Target& target, const policy::Facts& facts) {
  const auto ttft = number_of(target, TargetFact::expected_ttft, facts);
  const auto tpot = number_of(target, TargetFact::expected_tpot, facts);
  const auto total = number_of(target, TargetFact::expected_total, facts);
  if (!ttft || !tpot || !total || *tpot <= 0) return std::nullopt;
  return Times{*ttft, *tpot, *total};
}

}  // namespace

bool HeadStart::goes_on(std::uint32_t prompt_tokens, std::size_t generated) const noexcept {
  const double so_far = static_cast<double>(generated);
  const double left = tokens > so_far ? tokens - so_far : std::max(so_far / 4, 1.0);
  const double whole = std::max(prompt_tokens > 0 ? prompt_tokens : prompt, 1.0);
  return prefill_us * (whole + so_far) / whole + left * to_tpot_us < left * from_tpot_us;
}

std::string HeadStart::text() const {
  const auto time = [](double us) { return config::time_text(std::llround(us)); };
  return "at " + to_string(*from) + ", where the first token should come after " + time(from_ttft_us) +
         ", and after " + time(to_ttft_us) + " at " + to_string(*to) + ", which loads the model first";
}

std::optional<HeadStart> head_start_of(const policy::Decision& decision, const policy::Facts& facts,
                                       std::span<const policy::Target* const> possible,
                                       double prompt_tokens) {
  if (decision.target == nullptr || decision.rule->on_cold != policy::OnCold::start_elsewhere)
    return std::nullopt;
  const policy::Target& to = *decision.target;
  if (is_loaded(to, facts) != false) return std::nullopt;
  const auto chosen = times_of(to, facts);
  const auto load_ms = number_of(to, TargetFact::load_time, facts);
  if (!chosen || !load_ms) return std::nullopt;
  const double load = std::min(*load_ms * 1000, chosen->ttft);
  const double prefill = chosen->ttft - load;
  const double tokens = std::max((chosen->total - chosen->ttft) / chosen->tpot + 1, 1.0);
  const double prompt = std::max(prompt_tokens, 1.0);

  std::optional<HeadStart> best;
  for (const policy::Target* const from : possible) {
    if (from->backend == to.backend || is_loaded(*from, facts) != true) continue;
    const auto times = times_of(*from, facts);
    if (!times || times->ttft + kClearUs > chosen->ttft) continue;
    if (best && best->from_ttft_us <= times->ttft) continue;
    // Tokens that are there when the chosen engine is ready, which it computes as part of the prompt.
    const double there = std::max(0.0, (load - times->ttft) / times->tpot);
    const double end = there >= tokens
                           ? times->total
                           : load + prefill * (1 + there / prompt) + (tokens - there - 1) * chosen->tpot;
    if (end > chosen->total) continue;
    best =
        HeadStart{from, &to, tokens, prompt, prefill, times->tpot, chosen->tpot, times->ttft, chosen->ttft};
  }
  return best;
}

}  // namespace flyball::route
