// What one request has reserved of its app's limits, what it has used so far, and what it leaves in the
// usage journal: the one place where the three meet. One for each running request; pays when it is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "backends/backend.hpp"
#include "daemon/route/facts.hpp"
#include "daemon/route/limits.hpp"
#include "daemon/route/meter.hpp"
#include "daemon/route/run_state.hpp"
#include "daemon/usage/journal.hpp"

namespace flyball::route {

// The places that a request's answers take of its app's `in_flight`, given back when it is destroyed.
class InFlight {
 public:
  // limits outlives it. The answers were admitted there.
  InFlight(Limits& limits, std::string app, std::uint32_t answers)
      : limits_(limits), app_(std::move(app)), answers_(answers) {}
  ~InFlight() { limits_.leave(app_, answers_); }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

 private:
  Limits& limits_;
  const std::string app_;
  const std::uint32_t answers_;
};

class Bill {
 public:
  // limits and journal outlive it. The reservation is of this request and settled here. A request that wants
  // no answer costs no tokens: nothing of its prompt is computed.
  Bill(Limits& limits, usage::Journal& journal, std::string app, const RequestTraits& traits,
       Limits::Reservation reservation, Wanted wanted, std::span<const Prompt> prompts, std::uint32_t n,
       std::uint32_t context);
  ~Bill() { close(RunState::Kind::cancelled); }
  Bill(const Bill&) = delete;
  Bill& operator=(const Bill&) = delete;

  void began(std::size_t answer) {  // an engine has it
    if (wants_answer_) meter_.began(answer);
  }
  void failed(std::size_t answer) { meter_.failed(answer); }  // and gave it up
  void received(std::size_t answer, const Delta& delta);
  void done(std::size_t answer, const Usage& usage);
  void waits_no_longer() { limits_.begun(app_, reservation_); }
  void close(const RunState& state);  // once: the request has ended so

  // The bill lets go of them as it closes; whoever else holds them keeps the answers in flight. Null once
  // closed.
  const std::shared_ptr<const InFlight>& in_flight() const noexcept { return in_flight_; }

  Usage usage() const { return meter_.usage(); }
  // Of each answer with its prompt; 0: no limit.
  std::uint32_t total_tokens() const noexcept {
    return static_cast<std::uint32_t>(reservation_.tokens / reservation_.answers);
  }
  const Standings& standings() const noexcept { return reservation_.standings; }

 private:
  usage::DayUsage& day() { return journal_.change(app_, reservation_.day); }
  void tell();

  Limits& limits_;
  usage::Journal& journal_;
  const std::string app_;
  const bool wants_answer_, streamed_, with_tools_;
  const std::uint32_t n_prompts_, open_at_arrival_;
  Limits::Reservation reservation_;
  std::shared_ptr<const InFlight> in_flight_;
  Meter meter_;
  Usage told_;  // of it, what the journal has
  bool closed_ = false;
};

}  // namespace flyball::route
