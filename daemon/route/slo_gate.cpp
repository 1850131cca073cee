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

SloGate::Gate* SloGate::gate_of(std::string_view app, std::string_view model, const Pass& pass) {
  const auto at = gates_.find(Key(app, model));
  return at == gates_.end() || at->second.episode != pass.episode ? nullptr : &at->second;
}

SloGate::Pass SloGate::let_in(Gate& gate, bool probe, std::uint32_t one_in, double ratio) {
  ++gate.running;
  return {++passes_, gate.episode, probe, one_in, ratio};
}

void SloGate::close(Gate& gate) {
  gate.episode = ++episodes_;
  gate.successes = gate.running = 0;
  gate.held_ratio = 0;
  gate.probe = 0;
}

std::expected<SloGate::Pass, SloGate::Refused> SloGate::ask(std::string_view app, std::string_view model,
                                                            std::optional<TimePoint> idle_since, double ratio,
                                                            TimePoint now) {
  Gate& gate = gate_of(app, model, now);
  if (gate.successes > 0 && gate.running == 0 && now - gate.held_at > kOpenFor) close(gate);
  if (gate.successes > 0) {
    if (ratio > kBeyondSuccesses * gate.held_ratio) return std::unexpected(Refused{});
    const std::uint32_t one_in = 1U << (kSuccessesToOpen - gate.successes);
    if (gate.turn++ % one_in != 0) return std::unexpected(Refused{});
    return let_in(gate, false, one_in, ratio);
  }
  if (gate.probe != 0 && now - gate.probed_at < kMostWait) return std::unexpected(Refused{});
  TimePoint due = gate.waits_from + doubled(kBusyWait, gate.doublings);
  if (idle_since)
    due = std::min(due, std::max(gate.waits_from, *idle_since) + doubled(kIdleWait, gate.doublings));
  if (now < due) return std::unexpected(Refused{std::chrono::ceil<Time>(due - now)});
  const Pass pass = let_in(gate, true, 1, ratio);
  gate.probe = pass.id;
  gate.probed_at = now;
  return pass;
}

void SloGate::end_probe(Gate& gate, const Pass& pass, TimePoint now) {
  if (gate.probe != pass.id) return;
  gate.probe = 0;
  gate.waits_from = now;
}

void SloGate::count_success(Gate& gate, Pass& pass, TimePoint now) {
  if (std::exchange(pass.counted, true)) return;
  end_probe(gate, pass, now);
  gate.successes = std::min(gate.successes + 1, kSuccessesToOpen);
  gate.held_ratio = std::max(gate.held_ratio, pass.ratio);
  gate.held_at = now;
  gate.turn = gate.doublings = 0;
}

void SloGate::held_so_far(std::string_view app, std::string_view model, Pass& pass, TimePoint now) {
  if (Gate* const gate = gate_of(app, model, pass)) count_success(*gate, pass, now);
}

void SloGate::ended(std::string_view app, std::string_view model, Pass pass, Outcome outcome, TimePoint now) {
  Gate* const gate = gate_of(app, model, pass);
  if (gate == nullptr) return;
  --gate->running;
  end_probe(*gate, pass, now);
  switch (outcome) {
    case Outcome::held:
      count_success(*gate, pass, now);
      break;
    case Outcome::missed:
      close(*gate);
      gate->doublings = std::min(gate->doublings + 1, kMostDoublings);
      gate->waits_from = now;
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
