// The one writer of a request's receipt, from its admission to its end. Readers see it through Receipts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/route/receipts.hpp"

namespace flyball::route {

class ReceiptWriter {
 public:
  explicit ReceiptWriter(std::shared_ptr<Receipt> receipt) : receipt_(std::move(receipt)) {}
  const Receipt& receipt() const noexcept { return *receipt_; }

  // `decision` was taken on `facts` in policy_us; the request waits. Called again where
  // a parked or waiting request is decided again.
  void decided(policy::Facts facts, const policy::Decision& decision, double policy_us);
  // The decision leaves no target that is predicted to hold a hard SLO. nullopt: not so.
  void refused(std::optional<Error> why) { receipt_->refused = std::move(why); }
  // The new row replaces the last one if the request stayed in both: moves are few, but it may stay for long.
  void redecided(Redecision again);
  void background_load(std::string text) { receipt_->background_load = std::move(text); }
  void head_start(std::string text) { receipt_->head_start = std::move(text); }
  void explained() { receipt_->state = RunState::Kind::explained; }
  void parked() { receipt_->state = RunState::Kind::parked; }
  // Asked by readers while the request waits for its turn.
  void in_line(std::function<std::optional<PlaceInLine>()> place) { receipt_->in_line = std::move(place); }
  void first_event() { receipt_->state = RunState::Kind::running; }
  // The request is over: what it was `used` for, and its open attempts are cancelled.
  void ended(RunState state, double total_ms, const Usage& used);

  // A new row of the receipt, waiting; its index.
  std::size_t attempt(const policy::Target& target, std::uint32_t choice, std::uint32_t resumed_tokens);
  // devices: what each of the engine's holds. settings: those of the target's profile; "": it has none.
  void attempt_runs(std::size_t row, std::vector<std::string> devices, std::string settings);
  // The engine that an attempt begins on: known where one of this kind and digest is listed.
  bool knows_engine(const std::string& backend, const BackendInfo& engine) const;
  void engine(EngineRecord engine) { receipt_->engines.push_back(std::move(engine)); }
  void attempt_ended(std::size_t row, RunState outcome) {
    receipt_->attempts[row].outcome = std::move(outcome);
  }

  void kept_prefixes(std::vector<KeptPrefixRecord> kept) { receipt_->kept_prefixes = std::move(kept); }
  // An answer is done whose prompt begins with a kept prefix.
  void began_with(const std::string& kept, std::uint32_t tokens) {
    if (tokens < receipt_->kept_prefix_tokens) return;
    receipt_->kept_prefix = kept;
    receipt_->kept_prefix_tokens = tokens;
  }
  // An answer is done: adds what its constraint took in the engine.
  void constrained(const Timings& timings);
  void used(const Usage& usage) { receipt_->usage = usage; }
  void queued(double ms) {  // of its first answer that is done
    if (receipt_->queue_ms < 0) receipt_->queue_ms = ms;
  }
  void first_token(double ms) { receipt_->ttft_ms = ms; }
  void router_took(double us) { receipt_->router_us = us; }
  void answered(double ms) { receipt_->total_ms = ms; }

 private:
  std::shared_ptr<Receipt> receipt_;
};

}  // namespace flyball::route
