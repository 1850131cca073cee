#include "daemon/predict/engine_model.hpp"

#include <algorithm>
#include <cmath>

namespace flyball::predict {
namespace {

using measure::Kind;

constexpr double kMemory = 0.8;  // of Usual: some five answers are remembered
// A further engine adds no more, in times of the engine alone: engines that spin on each other's cores lose
// more than their share.
constexpr double kMostAdded = 4;
constexpr double kLeastAdded = 0.02;  // below it is the noise of a token's time
// Engines at work on average, up to which an answer counts as alone, and from which as beside others.
constexpr double kAloneBusy = 1.05, kSharedBusy = 1.25;

}  // namespace

double EngineModel::doubt_of(measure::Basis basis) noexcept {
  return basis == measure::Basis::assumed    ? kAssumedP90
         : basis == measure::Basis::roofline ? kRooflineP90
                                             : RatioWindow::kFirstP90;
}

// An assumption tells proportions alone: the first request that is seen tells the size.
void EngineModel::set_prior(const measure::Book& book, const std::string& model,
                            const std::string& engine_kind, std::int64_t now, double prefill_share) {
  const auto figure = [&](Kind kind, std::uint32_t at) {
    auto known = book.likely(model, engine_kind, kind, at, now);
    if (known && kind == Kind::ttft_ms) known->value /= prefill_share;
    return known && std::isfinite(known->value) && known->value > 0 ? known : std::nullopt;
  };
  const auto ms = figure(Kind::load_ms, 0);
  knows_load_ = ms.has_value();
  load_p90_ = RatioWindow::kFirstP90;
  if (!ms) {
    load_.set_prior({1}, false);
  } else {
    load_.set_prior({ms->value / 1e3}, ms->basis != measure::Basis::assumed);
    load_p90_ = doubt_of(ms->basis);
  }
  constexpr std::uint32_t kShort = 32, kPrompt = measure::Book::kPromptTokens, kStreams = 8;
  // Between two lengths: the slope is of a token, and what is left of the shorter one its first step.
  const auto less = figure(Kind::ttft_ms, kShort), more = figure(Kind::ttft_ms, kPrompt);
  const auto one = figure(Kind::decode_tps, 1), many = figure(Kind::decode_tps, kStreams);
  from_book_ = less && more && one && many;
  assumed_ = false;
  measured_ = from_book_;
  p90_ = RatioWindow::kFirstP90;
  if (!from_book_) {
    prefill_.set_prior(kPrefill, false);
    decode_.set_prior(kDecode, false);
    return;
  }
  for (const measure::Basis basis : {less->basis, more->basis, one->basis, many->basis}) {
    assumed_ |= basis == measure::Basis::assumed;
    measured_ &= basis == measure::Basis::measured;
    p90_ = std::max(p90_, doubt_of(basis));
  }
  const double step = 1 / one->value, batch = kStreams / many->value;
  const double token =
      std::max((more->value - less->value) / 1e3 / (kPrompt - kShort), more->value / 1e3 / kPrompt / 2);
  const double first = std::max(less->value / 1e3 - token * kShort, token);
  const double stream = std::max((batch - step) / (kStreams - 1), step / 100);
  prefill_.set_prior({first, token, kPair * token, kBeside * token}, !assumed_);
  decode_.set_prior({step, stream, kPosition * step, token}, !assumed_);
}

// A fit that forgets a level predicts other times, and the ratios kept so far are rescaled to them.
void EngineModel::prefilled(const PrefillWork& work, double seconds) {
  const double before = prefill_(terms(work));
  if (!prefill_.add(terms(work), seconds)) return;
  const double factor = prefill_(terms(work)) / before;
  for (RatioWindow Ratios::*window : {&Ratios::alone, &Ratios::queued}) {
    by_settings_.refitted(window, factor, all_);
    (all_.*window).refitted(factor);
  }
}

void EngineModel::decoded(const DecodeWork& work, double seconds) {
  const double before = decode_(terms(work));
  if (!decode_.add(terms(work), seconds)) return;
  const double factor = decode_(terms(work)) / before;
  by_settings_.refitted(&Ratios::per_token, factor, all_);
  all_.per_token.refitted(factor);
}

double EngineModel::slowdown(double busy) const noexcept {
  return 1 + std::min(added_.coefficients()[0], kMostAdded) * std::max(busy - 1, 0.0);
}

// The fit has to know the time alone: answers beside others teach it that only by way of the slowdown.
void EngineModel::shared(const DecodeWork& work, double seconds, double busy) {
  if (busy <= kAloneBusy) ++alone_in_group_;
  if (busy < kSharedBusy || alone_in_group_ < kEnough) return;
  added_.add({busy - 1}, std::max(seconds / std::max(token(work), 1e-9) - 1, kLeastAdded));
}

// A prompt's token beside decodes costs what it adds to their step; one alone has its part of a step in it.
engine::StepCost EngineModel::step_cost() const noexcept {
  const double token = prefill_.coefficients()[1], beside = decode_.coefficients()[3];
  constexpr double kLeast = 1e-9;
  return {std::max(decode_.coefficients()[0], kLeast),
          std::max(beside > 0 ? std::min(token, beside) : token, kLeast),
          std::max(prefill_.coefficients()[2], 0.0)};
}

const RatioWindow& EngineModel::ttft_ratios(const config::RequestSettings& settings,
                                            bool queued) const noexcept {
  const Ratios* const own = by_settings_.of(settings);
  if (queued && own != nullptr && own->queued.counts()) return own->queued;
  if (queued && all_.queued.counts()) return all_.queued;
  return own != nullptr && own->alone.counts() ? own->alone : all_.alone;
}

const RatioWindow& EngineModel::token_ratios(const config::RequestSettings& settings) const noexcept {
  const Ratios* const own = by_settings_.of(settings);
  return own != nullptr && own->per_token.counts() ? own->per_token : all_.per_token;
}

void EngineModel::saw_ttft(const config::RequestSettings& settings, bool queued, double actual,
                           double expected) {
  for (Ratios* ratios : {&all_, &by_settings_.seen(settings)})
    (queued ? ratios->queued : ratios->alone).add(actual, expected);
}

void EngineModel::saw_token(const config::RequestSettings& settings, double actual, double expected) {
  for (Ratios* ratios : {&all_, &by_settings_.seen(settings)}) ratios->per_token.add(actual, expected);
}

std::optional<double> EngineModel::load() const noexcept {
  if (!knows_load_ && load_.seen() == 0) return std::nullopt;
  return load_.coefficients()[0];
}

void EngineModel::met(const DecodeWork& work) {
  const auto blend = [](double& old, double latest) { old = kMemory * old + (1 - kMemory) * latest; };
  blend(usual_.streams, work.streams);
  blend(usual_.prompts, work.prompts);
}

}  // namespace flyball::predict
