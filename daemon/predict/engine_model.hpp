// How long one model's engine takes for prompts and tokens: a few coefficients, from what is known of its
// speed (daemon/measure/book) and then from what finished requests took. Seconds. Pure; bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "backends/engine/step_cost.hpp"
#include "config/request_settings.hpp"
#include "daemon/measure/book.hpp"
#include "daemon/predict/profile_ratios.hpp"
#include "daemon/predict/statistics/ratio_window.hpp"
#include "daemon/predict/statistics/robust_fit.hpp"

namespace flyball::predict {

// What an engine computed from a request's arrival there to its first token.
struct PrefillWork {
  double tokens = 0;   // of prompts, the request's own and others'
  double pairs = 0;    // each of them with every position that it attends to
  double streams = 0;  // that decoded beside, on average
};
// What an engine computed for one token of a request, on average over its answer.
struct DecodeWork {
  double streams = 0;    // beside the request's own
  double positions = 0;  // attended to, of all streams
  double prompts = 0;    // tokens of prompts computed beside
};

// Tokens behind `cached` ones, each with all before it and itself.
constexpr double pairs_of(double tokens, double cached) noexcept {
  return tokens * cached + tokens * (tokens + 1) / 2;
}

class EngineModel {
 public:
  // So many finished requests make a model of an engine that nobody has measured.
  static constexpr std::size_t kEnough = 3;

  // The book's word on the engine, in place of an earlier book's. Finished requests count on.
  void set_prior(const measure::Book& book, const std::string& model, const std::string& kind,
                 std::int64_t now, double prefill_share = 1);

  // True: nobody has measured the model there, and requests that would tell have not been seen.
  bool untried() const noexcept { return wants_prefill() || wants_decode(); }
  bool wants_prefill() const noexcept { return !knows_prefill() || (!measured_ && prefill_.seen() == 0); }
  bool wants_decode() const noexcept { return !knows_decode(); }
  // The expected times follow from an assumption about the device's class alone.
  bool is_assumed() const noexcept { return assumed_ && prefill_.seen() == 0; }

  // Nine in ten times stay below so many times the expected one, uncorrected: as ratios that were seen say,
  // and until enough were as far as the figures of the book may be trusted.
  double p90_of(const RatioWindow& ttft) const noexcept { return p90_of(ttft, prefill_.seen()); }
  double token_p90_of(const RatioWindow& per_token) const noexcept {
    return p90_of(per_token, decode_.seen());
  }
  double load_p90() const noexcept { return widened(load_p90_, load_.seen()); }

  // False: neither the book nor finished requests say anything.
  bool knows_prefill() const noexcept { return from_book_ || prefill_.seen() >= kEnough; }
  bool knows_decode() const noexcept { return from_book_ || decode_.seen() >= kEnough; }

  // From the engine's step that completes a prompt to its first token: all that does not grow with the
  // prompt.
  double first_step() const noexcept { return prefill_.coefficients()[0]; }
  double prefill(const PrefillWork& work) const noexcept { return prefill_(terms(work)) - first_step(); }
  double token(const DecodeWork& work) const noexcept { return decode_(terms(work)); }
  // nullopt: nobody knows.
  std::optional<double> load() const noexcept;
  // The same as the engine's scheduler knows it: for a step, a token of a prompt, a pair of a prompt's.
  engine::StepCost step_cost() const noexcept;

  // The times that such work took.
  void prefilled(const PrefillWork& work, double seconds);
  void decoded(const DecodeWork& work, double seconds);
  void loaded(double seconds) { load_.add({1}, seconds); }

  // How many times as long it takes while `busy` engines of its group are at work, itself included: as many
  // times, until answers beside other engines have shown how much it is.
  double slowdown(double busy) const noexcept;
  // The time of a token of an answer beside which so many engines were at work on average.
  void shared(const DecodeWork& work, double seconds, double busy);

  // The work beside the latest answers: what goes on comes again.
  struct Usual {
    double streams = 0, prompts = 0;
  };
  const Usual& usual() const noexcept { return usual_; }
  void met(const DecodeWork& work);

  // Actual over expected, of the requests with these settings once they are enough, else of all. The terms
  // hold what follows from the settings; these ratios are the rest.
  const RatioWindow& ttft_ratios(const config::RequestSettings& settings, bool queued) const noexcept;
  const RatioWindow& token_ratios(const config::RequestSettings& settings) const noexcept;
  void saw_ttft(const config::RequestSettings& settings, bool queued, double actual, double expected);
  void saw_token(const config::RequestSettings& settings, double actual, double expected);
  // Different settings have ratios of their own.
  bool tells_settings_apart() const noexcept { return by_settings_.size() > 1; }

 private:
  using PrefillTerms = RobustFit<4>::Terms;
  static PrefillTerms terms(const PrefillWork& w) noexcept {
    return {1, w.tokens, w.pairs, w.streams * w.tokens};
  }
  static PrefillTerms terms(const DecodeWork& w) noexcept { return {1, w.streams, w.positions, w.prompts}; }

  // One in ten of an engine's times is this much longer than expected, or more, before any was seen. Ceilings
  // say what a device could do, and engines reach a half or more of that. Devices of one class differ by
  // four: NVIDIA's data sheets give 272 GB/s for an RTX 4060 and 1,008 GB/s for an RTX 4090.
  static constexpr double kRooflineP90 = 2, kAssumedP90 = 4;
  static double doubt_of(measure::Basis basis) noexcept;
  // The doubt wanes as the prior's weight in a fit does: with the square of the number of requests.
  static double widened(double doubt, std::size_t seen) noexcept {
    const auto n = static_cast<double>(seen + 1);
    return RatioWindow::kFirstP90 + (doubt - RatioWindow::kFirstP90) / (n * n);
  }
  double p90_of(const RatioWindow& ratios, std::size_t seen) const noexcept {
    return ratios.counts() ? ratios.p90() : widened(p90_, seen);
  }

  // Proportions where nobody has measured: a prompt's own costs are those of some tokens, attention weighs as
  // much as the rest at ten thousand positions, a stream beside a prompt takes a fiftieth.
  static constexpr double kToken = 1e-3, kFirstTokens = 5, kPair = 1e-4, kBeside = 0.02;
  // And a further stream costs a tenth of a step, as do two tokens of a prompt; attention weighs as much as
  // the rest at fifty thousand positions.
  static constexpr double kStep = 20e-3, kStream = 0.1, kPosition = 2e-5, kPromptToken = 0.05;

  static constexpr PrefillTerms kPrefill{kFirstTokens * kToken, kToken, kPair* kToken, kBeside* kToken};
  static constexpr PrefillTerms kDecode{kStep, kStream* kStep, kPosition* kStep, kPromptToken* kStep};

  RobustFit<4> prefill_{kPrefill}, decode_{kDecode};
  RobustFit<1> load_{{1}};
  RobustFit<1> added_{{1}, true};   // what each further engine adds, in times of the engine alone
  std::size_t alone_in_group_ = 0;  // answers that no other engine was at work beside
  bool from_book_ = false, knows_load_ = false, assumed_ = false;
  bool measured_ = false;  // the book's figures of prompts and tokens were
  double p90_ = RatioWindow::kFirstP90, load_p90_ = RatioWindow::kFirstP90;  // before any request was seen
  Usual usual_;
  Ratios all_;
  ProfileRatios by_settings_;
};

}  // namespace flyball::predict
