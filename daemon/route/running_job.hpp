// One request from its admission to its end: decided, a turn and an engine for each of its answers, the next
// engine where one fails, its receipt and its bill. On the dispatcher's thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/steady_timer.hpp>

#include "daemon/route/attempt.hpp"
#include "daemon/route/bill.hpp"
#include "daemon/route/dispatcher_impl.hpp"
#include "daemon/route/head_start.hpp"
#include "daemon/route/reconsideration.hpp"
#include "daemon/route/slo.hpp"
#include "daemon/route/slo_gate.hpp"
#include "daemon/route/slo_outcome.hpp"

namespace flyball::route {

class RunningJob final : public Job, public std::enable_shared_from_this<RunningJob> {
 public:
  RunningJob(std::shared_ptr<Dispatcher::Impl> dispatcher, JobSpec spec, Dispatcher::Admission admission,
             std::weak_ptr<JobObserver> observer);
  ~RunningJob() override { finish(RunState::Kind::cancelled); }

  void start();
  void cancel() override { finish(RunState::Kind::cancelled); }
  void fail(ErrorCode why) override { finish(RunState::failed(why)); }
  void resume() override;
  const Receipt& receipt() const noexcept override { return receipt_.receipt(); }
  void first_token(double ms) override { receipt_.first_token(ms); }
  void answered(double ms) override { receipt_.answered(ms); }
  void router_took(double us) override { receipt_.router_took(us); }
  TimePoint asked_at() const noexcept override { return asked_; }
  std::int64_t retry_after_ms() const noexcept override { return retry_after_ms_; }
  const Standings& standings() const noexcept override { return bill_.standings(); }
  std::shared_ptr<const void> in_flight() const noexcept override { return bill_.in_flight(); }
  const std::string& backend() const noexcept override;

  bool on_event(std::size_t choice, std::uint32_t attempt, Event event);

 private:
  struct Choice {
    explicit Choice(std::vector<const policy::Target*> targets) : attempt(std::move(targets)) {}
    Attempt attempt;
    std::uint64_t ask = 0;  // the latest of its calls for a turn or an engine: answers to others are stale
    Turns::Place place;     // at the engine of this attempt
    predict::Predictor::Place predicted;  // the same, for the predictor
    std::string predicted_at;
    People::Place people;   // while an engine computes it and people wait for it
    std::string placed_at;  // its backend
    Ticket ticket;
    std::size_t record = 0;  // its row in the receipt
    bool begun = false;      // an engine took it, and may have computed something
    std::uint32_t context = 0;  // tokens that a sequence may hold at the engine that took it last
    bool done = false;
    AnswerTimes times;
  };

  void decide();
  bool ask_gate(const SloMiss& miss, policy::Facts& facts);
  void tell_gate();
  void begin_choices();
  void warm_up();
  void foresee(std::size_t choice, const policy::Target& target);
  void begin_from(std::size_t choice);
  void load_in_background();
  void wait_for_chosen();
  void chosen_turn();
  void chosen_ready(Result<Backend*> backend);
  void end_head_start(const std::string& why);
  TurnRequest turn_at(const policy::Target& target, std::size_t choice, bool goes_on) const;
  bool moves_to(const Backend& backend);
  People::Place people_at(const policy::Target& target) const;
  Error nothing_to_ask(std::string otherwise) const;
  void look_again();
  void act(std::size_t choice, Attempt::Action action);
  void acquire(std::size_t choice, std::uint64_t ask);
  void acquired(std::size_t choice, std::uint64_t ask, Result<Backend*> backend);
  void refused(std::size_t choice, const Error& error);
  void start_on(std::size_t choice, Backend& backend);
  void first_event();
  void answer_began();
  void fail_all(const Error& error);
  void finish(const RunState& state);
  void retire(Ticket ticket);
  void watch_deadline();
  std::chrono::microseconds waited() const;
  bool only_waits() const;
  void watch(const Outlook& outlook);
  void reconsider();
  std::string_view own_line() const;
  bool is_behind(const policy::Target& target) const;
  void decide_again(policy::Facts facts, std::chrono::microseconds so_far, std::string why);

  std::shared_ptr<Dispatcher::Impl> dispatcher_;
  JobSpec spec_;
  const std::uint64_t number_;                                       // of the dispatcher's requests
  const FairQueue::Id arrival_;                                      // of its first answer, in every line
  std::vector<std::shared_ptr<const predict::PromptPrint>> prints_;  // of its prompts
  Bill bill_;
  std::weak_ptr<JobObserver> observer_;
  ReceiptWriter receipt_;
  Reconsideration reconsideration_;
  std::vector<Choice> choices_;
  std::size_t unfinished_ = 0;
  bool over_ = false, had_event_ = false;
  TimePoint admitted_, asked_, started_;
  boost::asio::steady_timer look_;        // a parked request's next look
  boost::asio::steady_timer deadline_;    // the app's, for a first token
  boost::asio::steady_timer reconsider_;  // while it waits
  std::uint64_t asks_ = 0;
  std::optional<SloGate::Pass> pass_;  // until its outcome is known
  TimesTaken times_;
  // The target that the request would go to if the gate let it in. Its refusal begins the load of that
  // engine.
  const policy::Target* refused_at_ = nullptr;
  std::optional<BackgroundLoad> background_load_;  // found by its decision, and not begun
  std::int64_t retry_after_ms_ = -1;
  // While its only answer is computed elsewhere, until the chosen engine is ready or the answer is over.
  std::optional<HeadStart> head_start_;
  Turns::Place chosen_place_;  // at that engine
};

}  // namespace flyball::route
