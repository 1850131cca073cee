#include "daemon/route/dispatcher.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <ranges>
#include <utility>

#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "daemon/route/dispatcher_impl.hpp"
#include "daemon/route/engine_state.hpp"
#include "daemon/route/meter.hpp"
#include "daemon/route/possible_targets.hpp"
#include "daemon/route/running_job.hpp"
#include "daemon/route/slo.hpp"
#include "policy/profile.hpp"

namespace flyball::route {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

Now now() {
  const auto steady = Clock::now().time_since_epoch();
  return {std::chrono::duration_cast<std::chrono::milliseconds>(steady).count(), std::time(nullptr)};
}

}  // namespace

predict::EngineState state_of(const fleet::WorkerStatus& worker) {
  const std::uint64_t block = graph::KvLayout{}.block_size;
  return {worker.backend,
          worker.state == fleet::WorkerState::ready,
          worker.pid,
          block * worker.load.kv_blocks_total,
          block * worker.load.kv_blocks_used,
          worker.load.spills,
          worker.info.digest,
          worker.state == fleet::WorkerState::starting && !worker.ending && worker.account_bytes > 0};
}

std::vector<predict::ProfileTarget> profiles_of(const policy::Tree& tree) {
  std::vector<predict::ProfileTarget> out;
  for (const policy::Target* target : tree.program.targets)
    if (const config::RequestSettings* settings = policy::settings_of(tree, *target))
      out.push_back({target->backend, target->profile, *settings});
  return out;
}

predict::DeviceGroups device_groups(const fleet::MemoryStatus& memory) {
  predict::DeviceGroups out;
  for (const fleet::PoolStatus& pool : memory.pools | std::views::drop(1)) {
    out.emplace_back();
    for (const fleet::EngineMemory& engine : pool.backends) out.back().push_back(engine.backend);
  }
  return out;
}

Dispatcher::Impl::Impl(asio::io_context& context, fleet::Fleet& workers, policy::Facts probed,
                       metrics::Metrics& m, usage::Journal& usage_journal)
    : io(context),
      fleet(workers),
      hardware(std::move(probed)),
      hardware_now(hardware),
      metrics(m),
      journal(usage_journal),
      turns(std::make_shared<Turns>([] { return now().steady_ms; })),
      predictor(predict::print_key(), device_groups(fleet.memory())),
      people(std::make_shared<People>(
          device_groups(fleet.memory()),
          [&workers](const People::Kinds& kinds) { workers.hold_yielding(kinds); })),
      kept(io, fleet, predictor) {
  for (const auto& [key, used] : journal.usage().days())
    app_limits.restore(key.first, key.second, used.charged_tokens());
  for (const auto& [app, day] : journal.usage().lost()) app_limits.lose(app, day);
}

const policy::Facts& Dispatcher::Impl::hardware_by(const policy::Targets& targets) {
  // Compared by address: the settings of engines of their own are part of a catalogue, too.
  if (hardware_now.targets() != targets) hardware_now = in_catalogue(hardware, targets);
  return hardware_now;
}

predict::Query query_of(const JobSpec& spec, const Asked& asked, TimePoint now) {
  predict::Query out;
  out.app = spec.app.id;
  out.model = spec.model.id;
  out.prompt = asked.prompt;
  out.answers = std::max(spec.answers(), 1U);
  for (std::size_t i = 1; i < spec.prompts.size(); ++i)
    out.further_tokens += static_cast<double>(estimated_tokens(spec.prompts[i]));
  out.max_tokens = spec.traits.max_tokens;
  out.declared_output = spec.app.workload.output_tokens.value_or(0);
  out.slots = spec.model.max_sequences;
  out.book = spec.measured;
  out.unix_seconds = std::time(nullptr);
  out.now = now;
  out.request = asked.request;
  out.hard_slo = spec.app.slo.hard;
  out.interactive = spec.app.is_interactive(wanted_slo(spec.app, spec.traits));
  return out;
}

FairQueue::Coming coming_of(const JobSpec& spec, const Asked& asked) {
  const std::uint64_t tokens = spec.prompts.empty() ? 0 : estimated_tokens(spec.prompts.front());
  return {.app = spec.app.id,
          .weight = spec.app.weight() / 100.0,
          .prompt_tokens = static_cast<double>(tokens),
          .answers = std::max(spec.answers(), 1U),
          .arrival = asked.arrival};
}

std::span<const predict::LineState> Dispatcher::Impl::lines_for(const JobSpec& spec, const Asked& asked) {
  const bool both_places = std::ranges::any_of(spec.tree.profiles, [](const policy::Profile& profile) {
    return profile.settings.place == config::QueuePlace::behind;
  });
  turns->forecast(spec.model.id, coming_of(spec, asked), lines, both_places);
  return lines;
}

policy::Facts Dispatcher::Impl::facts_for(const JobSpec& spec, const Asked& asked,
                                          std::span<const policy::NamedFact> overrides) {
  const auto now = Clock::now();
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now - probed_at);
  LiveState live{fleet.status(), fleet.memory()};
  lines_for(spec, asked);
  const auto own = std::ranges::find(lines, asked.own, &predict::LineState::backend);
  for (fleet::WorkerStatus& worker : live.workers) {
    const bool is_own = own != lines.end() && worker.model == spec.model.id && worker.backend == asked.own;
    worker.load.waiting +=
        is_own ? own->turn.before : static_cast<std::uint32_t>(turns->waiting(worker.model, worker.backend));
  }
  static const measure::Book kNothing;
  policy::Facts facts =
      gather(hardware_by(spec.tree.targets), age, spec.app, spec.model, spec.traits, live, spec.file,
             spec.measured == nullptr ? kNothing : *spec.measured, std::time(nullptr));
  const bool changes = !overrides.empty() || !asked.left.empty();
  if (changes) forget_derived(facts);
  for (const policy::NamedFact& fact : overrides) facts.set(fact.id, fact.value, "override");
  bar_left(asked.left, facts);
  std::vector<predict::EngineState> engines;
  std::vector<predict::Neighbour> neighbours;
  for (const fleet::WorkerStatus& worker : live.workers) {
    if (worker.model == spec.model.id)
      engines.push_back(state_of(worker));
    else if (worker.state == fleet::WorkerState::ready && !worker.pinned && !worker.spare)
      neighbours.push_back({worker.model, worker.backend, worker.account_bytes});
  }
  if (spec.let_through) set_let_through(*spec.let_through, facts);
  const std::vector<predict::ProfileTarget> profiles = profiles_of(spec.tree);
  predict::Query query = query_of(spec, asked, now);
  query.profiles = profiles;
  query.asks_delay_to_others = spec.tree.program.asks_delay_to_others;
  query.neighbours = neighbours;
  query.threads = cpu_threads(spec.model, facts);
  query.engines = engines;
  query.lines = lines;
  predictor.predict(query, facts);
  if (changes) derive(facts);
  return facts;
}

double Dispatcher::Impl::decide(const JobSpec& spec, const policy::Facts& facts) {
  const auto before = Clock::now();
  policy::decide(spec.tree, facts, deciding);
  const double seconds = seconds_between(before, Clock::now());
  metrics.policy_evaluated(seconds, deciding.rule ? std::string_view(deciding.rule->id) : "none",
                           deciding.target ? std::string_view(deciding.target->backend) : "none");
  return seconds * 1e6;
}

std::optional<SloMiss> Dispatcher::Impl::miss(const JobSpec& spec, const policy::Facts& facts) const {
  return spec.app.slo.hard && spec.wants_answer() && !spec.let_through ? slo_miss(deciding, facts)
                                                                       : std::nullopt;
}

std::optional<Error> Dispatcher::Impl::refusal(const JobSpec& spec, const policy::Facts& facts) const {
  const auto missed = miss(spec, facts);
  return missed ? std::optional(slo_error(*missed)) : std::nullopt;
}

std::optional<BackgroundLoad> Dispatcher::Impl::background_load(const JobSpec& spec, const Asked& asked,
                                                                const policy::Facts& facts) {
  std::vector<std::string> cold = cold_engines(deciding, facts);
  const TimePoint now = Clock::now();
  std::erase_if(
      cold, [&](const std::string& backend) { return !background_pace.rested(spec.model.id, backend, now); });
  // A mere explanation (without a number) searches at any time, and leaves the pace alone.
  const bool is_request = asked.request != 0;
  if (cold.empty() || (is_request && !background_pace.may_search(spec.app.id, spec.model.id, now)))
    return std::nullopt;
  const auto workers = fleet.status();
  std::erase_if(cold,
                [&](const std::string& backend) { return !stands_still(workers, spec.model, backend); });
  if (cold.empty()) return std::nullopt;
  if (is_request) background_pace.searched(spec.app.id, spec.model.id, now);
  const std::vector<predict::ProfileTarget> profiles = profiles_of(spec.tree);
  predict::Query query = query_of(spec, asked, now);
  query.profiles = profiles;
  query.asks_delay_to_others = spec.tree.program.asks_delay_to_others;
  query.lines = lines_for(spec, asked);
  for (const std::string& backend : cold) {
    policy::Facts if_loaded = facts;
    predictor.predict_loaded(query, backend, if_loaded);
    if (auto gain = gain_if_loaded(spec.tree, backend, if_loaded))
      return BackgroundLoad{backend, std::move(*gain)};
  }
  return std::nullopt;
}

bool Dispatcher::Impl::begin(const BackgroundLoad& load, const JobSpec& spec) {
  const TimePoint now = Clock::now();
  if (!background_pace.may_begin(spec.model.id, load.backend, now)) return false;
  background_pace.begin(spec.model.id, load.backend, now);
  spdlog::info("engine loads in the background, {} | model={} backend={} app={}", load.gain, spec.model.id,
               load.backend, spec.app.id);
  fleet.acquire(spec.model.id, load.backend,
                [weak = weak_from_this(), model = spec.model.id,
                 backend = load.backend](const Result<Backend*>& loaded) {
                  const auto self = weak.lock();
                  if (!self) return;
                  self->background_pace.end();
                  if (!loaded)
                    spdlog::info("engine not loaded in the background: {} | model={} backend={}",
                                 loaded.error().message, model, backend);
                },
                {spec.app.id, false, spec.app.limits.resident, true});
  return true;
}

void Dispatcher::Impl::record(policy::Facts facts, double policy_us, std::optional<Error> refused,
                              ReceiptWriter& receipt) const {
  receipt.refused(std::move(refused));
  receipt.decided(std::move(facts), deciding, policy_us);
}

std::expected<Limits::Reservation, Refusal> Dispatcher::Impl::admit(const Entrant& request) {
  const config::AppManifest& app = request.app;
  const auto answers = static_cast<std::uint32_t>(request.prompts.size()) * request.n;
  const Demand demand =
      request.wanted == Wanted::answer
          ? demand_of(request.prompts, request.n, request.max_tokens, context_of(request.model))
          : Demand{.answers = answers};
  auto reservation = app_limits.admit(app.id, app.limits, demand, now());
  if (!reservation) return reservation;
  // An empty queue takes any request, or one of more answers than max_queue could never be served.
  if (waiting_answers > 0 && waiting_answers + demand.answers > limits.max_queue) {
    app_limits.settle(app.id, *reservation, 0);
    app_limits.leave(app.id, reservation->answers);
    app_limits.give_back(app.id, 1, request.body_bytes);
    return std::unexpected(
        Refusal{{ErrorCode::overloaded,
                 "The queue is full: " + std::to_string(waiting_answers) +
                     " answers are waiting, and its limit is " + std::to_string(limits.max_queue) + ".",
                 {},
                 {}},
                turns->pace_ms(request.model.id),
                app_limits.standings_of(app.id, app.limits, now())});
  }
  ++waiting;
  waiting_answers += reservation->answers;
  return reservation;
}

void Dispatcher::Impl::withdraw(const std::string& app, const Limits::Reservation& reservation) {
  --waiting;
  waiting_answers -= reservation.answers;
  app_limits.settle(app, reservation, 0);
  app_limits.leave(app, reservation.answers);
}

// Tickets die from the io_context, since their destruction talks to an engine that may be calling us right
// now; but no later than the dispatcher, as the fleet may end right after it.
void Dispatcher::Impl::retire(Ticket ticket) {
  retired.push_back(std::move(ticket));
  if (retired.size() > 1) return;  // one visit takes them all
  asio::post(io, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) std::exchange(self->retired, {}).clear();
  });
}

void Dispatcher::Impl::learn_later() {
  if (!predictor.has_lessons() || std::exchange(learns_later, true)) return;
  asio::post(io, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->learns_later = false;
    self->predictor.learn();
  });
}

Dispatcher::Dispatcher(asio::io_context& io, fleet::Fleet& fleet, policy::Facts hardware,
                       metrics::Metrics& metrics, usage::Journal& journal)
    : impl_(std::make_shared<Impl>(io, fleet, std::move(hardware), metrics, journal)) {}
Dispatcher::~Dispatcher() {
  impl_->kept.stop();
  std::exchange(impl_->retired, {}).clear();
}

void Dispatcher::keep(std::vector<KeptWish> wishes) {
  impl_->kept.want(std::move(wishes));
}
const KeptPrefixes& Dispatcher::kept() const noexcept {
  return impl_->kept;
}

void Dispatcher::set_limits(DispatchLimits limits) noexcept {
  impl_->limits = limits;
}
std::expected<Standings, Refusal> Dispatcher::charge(const config::AppManifest& app,
                                                     std::uint64_t body_bytes) {
  return impl_->app_limits.charge(app.id, app.limits, body_bytes, now());
}
Standings Dispatcher::standings_of(const config::AppManifest& app) const {
  return impl_->app_limits.standings_of(app.id, app.limits, now());
}
void Dispatcher::give_back(const config::AppManifest& app, std::uint64_t requests, std::uint64_t body_bytes) {
  impl_->app_limits.give_back(app.id, requests, body_bytes);
}
const Receipts& Dispatcher::receipts() const noexcept {
  return impl_->receipts;
}
std::size_t Dispatcher::waiting() const noexcept {
  return impl_->waiting;
}
std::size_t Dispatcher::running() const noexcept {
  return impl_->running;
}
const predict::Predictor& Dispatcher::predictor() const noexcept {
  return impl_->predictor;
}
double Dispatcher::widest_gap() const {
  return impl_->turns->widest_gap();
}
fleet::Fleet& Dispatcher::fleet() noexcept {
  return impl_->fleet;
}

Dispatcher::Admission::Admission(std::weak_ptr<Impl> dispatcher, std::string app,
                                 Limits::Reservation reservation)
    : dispatcher_(std::move(dispatcher)),
      app_(std::move(app)),
      reservation_(std::move(reservation)),
      at_(std::chrono::steady_clock::now()) {}

Dispatcher::Admission::~Admission() {
  if (const auto dispatcher = dispatcher_.lock()) dispatcher->withdraw(app_, reservation_);
}

Limits::Reservation Dispatcher::Admission::hand_over() {
  dispatcher_.reset();
  return std::move(reservation_);
}

std::expected<Dispatcher::Admission, Refusal> Dispatcher::admit(const Entrant& request) {
  auto reservation = impl_->admit(request);
  if (!reservation) {
    ++impl_->journal.change(request.app.id, now().day()).refused;
    return pass(reservation);
  }
  return Admission(impl_, request.app.id, std::move(*reservation));
}

std::shared_ptr<Job> Dispatcher::submit(JobSpec spec, Admission admission,
                                        std::weak_ptr<JobObserver> observer) {
  auto job = std::make_shared<RunningJob>(impl_, std::move(spec), std::move(admission), std::move(observer));
  job->start();
  return job;
}

Receipt begun_receipt(const JobSpec& spec) {
  Receipt receipt;
  receipt.request_id = spec.id;
  receipt.app = spec.app.id;
  receipt.model = spec.model.id;
  receipt.operation = spec.wants_answer() ? spec.traits.operation : to_string(spec.base.wanted);
  receipt.ignored_fields = spec.ignored_fields;
  receipt.tools_in_system_message = spec.tools_in_system_message;
  receipt.constraint = spec.constraint;
  receipt.keep = spec.keep;
  receipt.created = std::time(nullptr);
  return receipt;
}

EngineRecord engine_record(const std::string& backend, const BackendInfo& engine, const JobSpec& spec) {
  EngineRecord out{.backend = backend,
                   .model_path = spec.model.path.string(),
                   .digest = engine.digest,
                   .quantization = engine.quantization,
                   .kv_type = engine.kv_type,
                   .context = engine.context_length,
                   .device = {},
                   .driver = {}};
  if (const auto* const found = spec.measured != nullptr ? spec.measured->found(engine.backend) : nullptr) {
    out.device = found->device;
    out.driver = found->driver;
  }
  return out;
}

Receipt Dispatcher::explain(const JobSpec& spec, std::span<const policy::NamedFact> overrides) {
  const auto receipt = std::make_shared<Receipt>(begun_receipt(spec));
  ReceiptWriter writer(receipt);
  auto print = spec.prompts.empty() ? predict::PromptPrint{.bytes = spec.traits.prompt_bytes}
                                    : impl_->predictor.print_of(spec.prompts.front(), spec.app.id);
  const Asked asked{std::make_shared<const predict::PromptPrint>(std::move(print))};
  auto facts = impl_->facts_for(spec, asked, overrides);
  const double took = impl_->decide(spec, facts);
  auto refused = impl_->refusal(spec, facts);
  if (!refused)
    if (const auto load = impl_->background_load(spec, asked, facts))
      writer.background_load(background_load_text(*load, false));
  if (!refused && spec.n == 1 && spec.prompts.size() <= 1) {
    const std::uint64_t tokens = spec.prompts.empty()
                                     ? spec.traits.prompt_bytes / predict::PromptTokens::kBytesPerToken
                                     : estimated_tokens(spec.prompts.front());
    if (const auto start = head_start_of(impl_->deciding, facts, possible_targets(impl_->deciding),
                                         static_cast<double>(tokens)))
      writer.head_start(start->text());
  }
  impl_->record(std::move(facts), took, std::move(refused), writer);
  writer.explained();
  return std::move(*receipt);
}

}  // namespace flyball::route
