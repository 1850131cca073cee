// What a Dispatcher and its jobs share: the fleet, turns, limits, receipts and counts. For the dispatcher's
// own files; one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "backends/graph/memory_plan.hpp"
#include "daemon/predict/predictor.hpp"
#include "daemon/route/background_load.hpp"
#include "daemon/route/dispatcher.hpp"
#include "daemon/route/kept_prefixes.hpp"
#include "daemon/route/people.hpp"
#include "daemon/route/receipt_writer.hpp"
#include "daemon/route/slo_gate.hpp"
#include "daemon/route/turns.hpp"

namespace flyball::route {

// The targets of the tree whose profile sets something.
std::vector<predict::ProfileTarget> profiles_of(const policy::Tree& tree);
// Whose request it is, and when it came; nothing is decided yet.
Receipt begun_receipt(const JobSpec& spec);
// The engine that a request begins on, as receipts keep it.
// backend: the instance that it is, "cpu:night".
EngineRecord engine_record(const std::string& backend, const BackendInfo& engine, const JobSpec& spec);

// A request as the predictor is asked about it.
struct Asked {
  std::shared_ptr<const predict::PromptPrint> prompt;
  std::uint64_t request = 0;  // its number; 0: it is only explained
  FairQueue::Id arrival = 0;  // of its first answer; 0: as if it came now
  // The engine in whose line it waits, "": none. Only the requests that go before it there are in its way.
  std::string_view own = {};
  std::span<const std::string> left = {};  // engines that it gave up while it waited: not available to it
};
// The sets of engine kinds that share discrete GPUs: those that share the GPUs' own memory. The first pool is
// the machine's, whose engines share the cores.
predict::DeviceGroups device_groups(const fleet::MemoryStatus& memory);

// Without the states of the engines and their lines.
predict::Query query_of(const JobSpec& spec, const Asked& asked, TimePoint now);

// The request as the lines of its model are asked about it. Its app's name is that of `spec`.
FairQueue::Coming coming_of(const JobSpec& spec, const Asked& asked);

struct Dispatcher::Impl : std::enable_shared_from_this<Dispatcher::Impl> {
  Impl(boost::asio::io_context& context, fleet::Fleet& workers, policy::Facts probed, metrics::Metrics& m,
       usage::Journal& usage_journal);

  boost::asio::io_context& io;
  fleet::Fleet& fleet;
  const policy::Facts hardware;
  // The probe's facts in the catalogue of the policy that decides a request; a reload may have replaced it
  // since.
  const policy::Facts& hardware_by(const policy::Targets& targets);
  policy::Facts hardware_now;                                    // by the catalogue asked for last
  const TimePoint probed_at = std::chrono::steady_clock::now();  // the probe ran just before
  metrics::Metrics& metrics;
  usage::Journal& journal;
  DispatchLimits limits;
  const std::shared_ptr<Turns> turns;
  Receipts receipts;
  policy::Decision deciding;  // storage for decide(): receipts keep a copy no longer than their path
  std::size_t waiting = 0, running = 0;  // admitted requests, whether they are submitted yet or not
  std::size_t waiting_answers = 0;       // of them
  Limits app_limits;
  predict::Predictor predictor;
  const std::shared_ptr<People> people;
  KeptPrefixes kept;
  SloGate slo_gate;
  BackgroundPace background_pace;
  std::uint64_t requests = 0;  // submitted so far

  std::expected<Limits::Reservation, Refusal> admit(const Entrant& request);
  // Gives back the places of an admitted request that was never submitted.
  void withdraw(const std::string& app, const Limits::Reservation& reservation);
  // As of now, with predictions, after the overrides.
  policy::Facts facts_for(const JobSpec& spec, const Asked& asked,
                          std::span<const policy::NamedFact> overrides = {});
  // Into `deciding`; the microseconds it took.
  double decide(const JobSpec& spec, const policy::Facts& facts);
  // The way in which the request misses its hard SLO, after decide() on these facts. nullopt: nobody refuses
  // it.
  std::optional<SloMiss> miss(const JobSpec& spec, const policy::Facts& facts) const;
  // The same as an error.
  std::optional<Error> refusal(const JobSpec& spec, const policy::Facts& facts) const;
  // The engine that is worth loading in the background after decide() on these facts. nullopt: none, or the
  // pace allows no search now.
  std::optional<BackgroundLoad> background_load(const JobSpec& spec, const Asked& asked,
                                                const policy::Facts& facts);
  // Begins the load, at the app's cost. False: another background load has begun since it was found.
  bool begin(const BackgroundLoad& load, const JobSpec& spec);
  // Records `deciding` and the refusal.
  void record(policy::Facts facts, double policy_us, std::optional<Error> refused,
              ReceiptWriter& receipt) const;
  void retire(Ticket ticket);
  // Has the predictor learn in a later turn of the loop, when the tokens that taught it have been sent.
  void learn_later();

  // The lines of the request's model. In its own line the request has its place there.
  std::span<const predict::LineState> lines_for(const JobSpec& spec, const Asked& asked);

  std::vector<Ticket> retired;
  bool learns_later = false;              // that turn is due
  std::vector<predict::LineState> lines;  // storage for lines_for()
};

inline std::uint32_t context_of(const config::ModelEntry& model) {
  return model.context > 0 ? model.context : graph::kDefaultContext;
}

inline double seconds_between(TimePoint from, TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace flyball::route
