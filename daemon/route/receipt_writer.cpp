#include "daemon/route/receipt_writer.hpp"

#include <algorithm>

namespace flyball::route {

void ReceiptWriter::decided(policy::Facts facts, const policy::Decision& decision, double policy_us) {
  receipt_->facts = std::move(facts);
  receipt_->decision = decision;
  receipt_->policy_us = policy_us;
  receipt_->state = RunState::Kind::waiting;
}

void ReceiptWriter::redecided(Redecision again) {
  std::vector<Redecision>& rows = receipt_->redecisions;
  const auto stays = [](const Redecision& one) { return one.from == one.to; };
  if (!rows.empty() && stays(rows.back()) && stays(again)) rows.pop_back();
  rows.push_back(std::move(again));
}

void ReceiptWriter::ended(RunState state, double total_ms, const Usage& used) {
  receipt_->in_line = nullptr;
  receipt_->state = std::move(state);
  receipt_->total_ms = total_ms;
  receipt_->usage = used;
  for (AttemptRecord& attempt : receipt_->attempts)
    if (attempt.outcome.open()) attempt.outcome = RunState::Kind::cancelled;
}

std::size_t ReceiptWriter::attempt(const policy::Target& target, std::uint32_t choice,
                                   std::uint32_t resumed_tokens) {
  receipt_->attempts.push_back({.backend = target.backend,
                                .outcome = RunState::Kind::waiting,
                                .choice = choice,
                                .resumed_tokens = resumed_tokens,
                                .profile = target.profile});
  return receipt_->attempts.size() - 1;
}

bool ReceiptWriter::knows_engine(const std::string& backend, const BackendInfo& engine) const {
  return std::ranges::any_of(receipt_->engines, [&](const EngineRecord& one) {
    return one.backend == backend && one.digest == engine.digest;
  });
}

void ReceiptWriter::constrained(const Timings& timings) {
  if (!receipt_->constraint) return;
  receipt_->constraint->engine_compile_us += timings.compile_us;
  receipt_->constraint->mask_us += timings.mask_us;
}

void ReceiptWriter::attempt_runs(std::size_t row, std::vector<std::string> devices, std::string settings) {
  AttemptRecord& attempt = receipt_->attempts[row];
  attempt.outcome = RunState::Kind::running;
  attempt.settings = std::move(settings);
  for (std::string& device : devices) attempt.devices.push_back(std::move(device));
}

}  // namespace flyball::route
