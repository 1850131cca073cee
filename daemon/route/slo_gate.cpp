#include "daemon/route/slo_gate.hpp"

#include <algorithm>

namespace flyball::route {
namespace {

constexpr std::uint32_t kMostDoublings = 5;  // of kIdleWait: 64 s, beyond kMostWait

SloGate::Time doubled(SloGate::Time wait, std::uint32_t times) {
  return std::min(wait * (1U << times), SloGate::kMostWait);
}

}  // namespace

SloGate::Gate& SloGate::gate_of(std::string_view app, std::string_view model, TimePoint now) {
  const auto [at, is_new] = gates_.try_emplace(Key(app, model));
  if (is_new) {
    at->second.episode = ++episodes_;
    at->second.waits_from = at->second.asked = now;
    if (gates_.size() > kMostGates)
      gates_.erase(std::ranges::min_element(gates_, {}, [&](const auto& entry) {
        return &entry.second == &at->second ? TimePoint::max() : entry.second.asked;
      }));
  }
  at->second.asked = now;
  return at->second;
}

std::expected<SloGate::Pass, SloGate::Refused> SloGate::ask(std::string_view app, std::string_view model,
                                                            std::optional<TimePoint> idle_since,
                                                            TimePoint now) {
  Gate& gate = gate_of(app, model, now);
  if (gate.successes > 0 && now - gate.held_at > kOpenFor) gate.successes = 0;
  if (gate.successes > 0) {
    const std::uint32_t one_in = 1U << (kSuccessesToOpen - gate.successes);
    if (gate.turn++ % one_in != 0) return std::unexpected(Refused{});
    return Pass{gate.episode, false, one_in};
  }
  if (gate.probing) return std::unexpected(Refused{});
  TimePoint due = gate.waits_from + doubled(kBusyWait, gate.doublings);
  if (idle_since)
    due = std::min(due, std::max(gate.waits_from, *idle_since) + doubled(kIdleWait, gate.doublings));
  if (now < due) return std::unexpected(Refused{std::chrono::ceil<Time>(due - now)});
  gate.probing = true;
  return Pass{gate.episode, true, 1};
}

void SloGate::ended(std::string_view app, std::string_view model, const Pass& pass, Outcome outcome,
                    TimePoint now) {
  const auto at = gates_.find(Key(app, model));
  // A request that got in before the gate closed says nothing of the host since then.
  if (at == gates_.end() || at->second.episode != pass.episode) return;
  Gate& gate = at->second;
  if (pass.probe) {
    gate.probing = false;
    gate.waits_from = now;
  }
  switch (outcome) {
    case Outcome::held:
      gate.successes = std::min(gate.successes + 1, kSuccessesToOpen);
      gate.held_at = now;
      gate.turn = gate.doublings = 0;
      break;
    case Outcome::missed:
      gate.successes = 0;
      gate.doublings = std::min(gate.doublings + 1, kMostDoublings);
      gate.waits_from = now;
      gate.probing = false;
      gate.episode = ++episodes_;
      break;
    case Outcome::unknown:
      break;
  }
}

std::string to_text(const SloGate::Pass& pass) {
  if (pass.probe) return "as a probe";
  if (pass.one_in > 1) return "as one in " + std::to_string(pass.one_in);
  return "as all are after " + std::to_string(SloGate::kSuccessesToOpen) + " requests held the SLO";
}

}  // namespace flyball::route
