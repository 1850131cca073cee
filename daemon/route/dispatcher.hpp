// Admission, decision and execution of one completion request over the fleet: who may enter, which engine
// takes it, what happens when that engine dies. One io_context thread; knows nothing of HTTP or JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "backends/backend.hpp"
#include "config/app_manifest.hpp"
#include "config/config.hpp"
#include "daemon/fleet/fleet.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/route/facts.hpp"
#include "daemon/route/kept_prefixes.hpp"
#include "daemon/route/limits.hpp"
#include "daemon/route/receipts.hpp"
#include "daemon/route/slo.hpp"
#include "daemon/usage/journal.hpp"
#include "policy/decide.hpp"
#include "policy/fact_json.hpp"

namespace flyball::predict {
class Predictor;
struct PromptPrint;
}  // namespace flyball::predict

namespace flyball::route {

// The part of a request that admission depends on. All that it refers to outlives it.
struct Entrant {
  const config::AppManifest& app;
  const config::ModelEntry& model;
  std::span<const Prompt> prompts;
  std::uint32_t n = 1;             // answers to each prompt
  std::uint32_t max_tokens = 0;    // of each answer; 0: as many as the context leaves
  std::uint64_t body_bytes = 0;    // that the app was charged with
  Wanted wanted = Wanted::answer;  // without an answer no tokens are reserved
};

// What one request needs, all of it decided before it enters. The references live as long as `keep`.
struct JobSpec {
  std::string id;
  std::shared_ptr<const void> keep;  // the settings the request started with
  const policy::Tree& tree;
  const config::AppManifest& app;
  const config::ModelEntry& model;
  RequestTraits traits;
  CompletionRequest base;  // all but id, prompt and resumption; its seed is the first answer's
  std::vector<Prompt> prompts;
  // One for each prompt; empty: not taken yet.
  std::vector<std::shared_ptr<const predict::PromptPrint>> prints = {};
  std::uint32_t n = 1;                              // answers to each prompt
  std::vector<std::string> ignored_fields = {};     // for the receipt
  bool tools_in_system_message = false;             // for the receipt
  std::optional<ConstraintRecord> constraint = {};  // of base.constraint, for the receipt; nullopt: none
  const BackendInfo* file = nullptr;                // what the model's file says of itself, if that is known
  const measure::Book* measured = nullptr;          // what is known of its engines by measurement
  // Set by the job where SloGate let the request in: its hard SLO refuses it no more.
  std::optional<LetThrough> let_through = {};

  bool wants_answer() const noexcept { return base.wanted == Wanted::answer; }
  std::uint32_t answers() const noexcept { return static_cast<std::uint32_t>(prompts.size()) * n; }
};

// Called on the io_context thread, possibly from within an engine's callback: must not destroy the job's
// engine.
struct JobObserver {
  virtual ~JobObserver() = default;
  virtual bool on_delta(std::size_t choice, const Delta& delta) = 0;  // false: pause until Job::resume
  virtual void on_done(std::size_t choice, const Done& done) = 0;
  virtual void on_error(const Error& error) = 0;  // last; the job is over
};

class Dispatcher;

// A running request. Destruction or cancel() stops its engines within one step.
class Job {
 public:
  virtual ~Job() = default;
  virtual void cancel() = 0;
  virtual void fail(ErrorCode why) = 0;  // as cancel(), and the receipt says why; the observer is not told
  virtual void resume() = 0;             // the client has read what was pending
  virtual const Receipt& receipt() const noexcept = 0;
  // For the receipt, what only its client's connection knows: from the first byte of the request to the first
  // token and to the end, and what the router itself took of that.
  virtual void first_token(double ms) = 0;
  virtual void answered(double ms) = 0;
  virtual void router_took(double us) = 0;
  // When the first engine was asked for: what passes from here to its events is loading and computing, not
  // routing.
  virtual TimePoint asked_at() const noexcept = 0;
  virtual const std::string& backend() const noexcept = 0;  // serving choice 0 now; "none" before
  // The time until SloGate lets a probe in, after a refusal by the hard SLO. -1: nobody knows, or no refusal.
  virtual std::int64_t retry_after_ms() const noexcept = 0;
  virtual const Standings& standings() const noexcept = 0;  // the app's, when this was admitted
  // The answers count against the app's `in_flight` until the job has ended and nobody holds this.
  virtual std::shared_ptr<const void> in_flight() const noexcept = 0;
};

struct DispatchLimits {
  std::uint32_t max_queue = 256;  // answers that may wait
};

class Dispatcher {
 public:
  struct Impl;  // dispatcher_impl.hpp; named by its jobs

  // The places of an admitted request: it counts as in flight and waiting, with the tokens that it may come
  // to, until a job takes them over or this is destroyed.
  class Admission {
   public:
    Admission(Admission&&) noexcept = default;
    Admission& operator=(Admission&&) = delete;
    ~Admission();

    TimePoint at() const noexcept { return at_; }
    // The caller gives the places back from now on. Precondition: called once.
    Limits::Reservation hand_over();

   private:
    friend class Dispatcher;
    Admission(std::weak_ptr<Impl> dispatcher, std::string app, Limits::Reservation reservation);

    std::weak_ptr<Impl> dispatcher_;  // null once they are handed over
    std::string app_;
    Limits::Reservation reservation_;
    TimePoint at_;
  };

  // All outlive it. The use that the journal has of each app today counts against its limits.
  Dispatcher(boost::asio::io_context& io, fleet::Fleet& fleet, policy::Facts hardware,
             metrics::Metrics& metrics, usage::Journal& journal);
  ~Dispatcher();

  void set_limits(DispatchLimits limits) noexcept;
  // Charges the app with a request whose body is still to come, as Limits::charge does. admit() gives the
  // charge back where it answers `overloaded`.
  std::expected<Standings, Refusal> charge(const config::AppManifest& app, std::uint64_t body_bytes);
  Standings standings_of(const config::AppManifest& app) const;  // as of now
  void give_back(const config::AppManifest& app, std::uint64_t requests, std::uint64_t body_bytes);
  // Admits a charged request, before anything costly is done for it. Each answer takes a place of its own, as
  // each takes a sequence of an engine. rate_limited: the app's own limits; invalid_value: they would never
  // allow it; overloaded: the queue is full.
  std::expected<Admission, Refusal> admit(const Entrant& request);
  // Decides at once about the request that was admitted; engines are asked later, from the io_context.
  // Failures arrive at the observer.
  std::shared_ptr<Job> submit(JobSpec spec, Admission admission, std::weak_ptr<JobObserver> observer);

  // The prefixes that engines are to keep from now on: those of all manifests.
  void keep(std::vector<KeptWish> wishes);
  const KeptPrefixes& kept() const noexcept;

  // Decides without running: the facts as they are now, with `overrides` on top and what follows from
  // them.
  Receipt explain(const JobSpec& spec, std::span<const policy::NamedFact> overrides);

  const Receipts& receipts() const noexcept;
  std::size_t waiting() const noexcept;  // requests: admitted, no event yet
  std::size_t running() const noexcept;
  const predict::Predictor& predictor() const noexcept;
  double widest_gap() const;  // FairQueue's, of all engines
  fleet::Fleet& fleet() noexcept;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace flyball::route
