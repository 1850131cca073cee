// When a waiting request is decided again. Pure: predictions and the time waited come in, and a reason or the
// time until the next look comes out.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/app_manifest.hpp"
#include "policy/decide.hpp"
#include "policy/facts.hpp"

namespace flyball::route {

// The predictions for a request at one target, from now on. nullopt: not predicted.
struct Expectation {
  const policy::Target* target = nullptr;
  const policy::Rule* rule = nullptr;  // names the target
  std::optional<std::chrono::microseconds> ttft, tpot, total;
  std::optional<bool> meets_slo;
  std::optional<std::chrono::microseconds> delay_to_others = {};
};

// app.slo.* of a waiting request.
struct SloLeft {
  bool declared = false;                              // the app has an SLO
  std::optional<std::chrono::milliseconds> deadline;  // time left until the deadline
};

// The predictions for a waiting request at one moment.
struct Outlook {
  std::chrono::microseconds waited{0};  // since the admission
  SloLeft slo;
  Expectation own;  // at the target where the request waits
  // Usable targets of the deciding rule and of those before it that pick by prediction, each engine once.
  std::vector<Expectation> others;
};

// Precondition: the decision has a target. `facts` may be younger than the decision: they say which of its
// targets are available now.
Outlook outlook_of(const policy::Decision& decision, const policy::Facts& facts,
                   std::chrono::microseconds waited);

// True: a request that waits at `backend` stays there although `again`, taken on `facts`, chose another
// engine. It stays if the rule picks by prediction, names its own target as usable too, and the chosen target
// is not clearly better: a rule prefers the first listed among targets about as fast, which is no reason to
// give up a place for good. Precondition: `again` has a target.
bool stays_against(const policy::Decision& again, const policy::Facts& facts, const std::string& backend);

// One request's reasons to be decided again:
// - the prediction at its own target passes the SLO, or was past it and has become clearly worse;
// - another target has become clearly better, under a rule that picks by prediction and that is asked no
//   later than the deciding one;
// - without any SLO, under such a rule, the prediction at its own target has become clearly worse.
// Each compares with the latest decision: a prediction that decision knew is no reason to repeat it.
class Reconsideration {
 public:
  // A move gives up a place in line, and perhaps a load under way.
  static constexpr std::size_t kMostMoves = 4;

  explicit Reconsideration(config::Slo slo) : slo_(std::move(slo)) {}

  // The request was decided, or decided again, and waits at outlook.own. `outlook` is of that decision's
  // facts.
  void decided(Outlook outlook);
  // Time until the next look; nullopt: looks could not move the request.
  std::optional<std::chrono::microseconds> until_look(const Outlook& now) const;
  // Why the request is decided again, in the receipt's words; nullopt: it stays. Precondition: decided().
  std::optional<std::string> reason(const Outlook& now) const;
  // Engines that the request gave up. No decision returns it to one: two engines whose predictions alternate
  // would pass it back and forth.
  const std::vector<std::string>& left() const noexcept { return left_; }

 private:
  std::optional<std::string> slo_at_stake(const Outlook& now) const;
  std::optional<std::string> another_is_better(const Outlook& now) const;
  std::optional<std::string> own_is_worse(const Outlook& now) const;
  bool declares_slo() const noexcept { return slo_.ttft || slo_.tpot || slo_.deadline; }

  config::Slo slo_;
  Outlook then_;  // at the latest decision
  std::vector<std::string> left_;
};

}  // namespace flyball::route
