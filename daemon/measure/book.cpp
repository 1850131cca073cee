#include "daemon/measure/book.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <limits>

#include "config/engine_kinds.hpp"
#include "daemon/measure/assumed_ceilings.hpp"
#include "policy/fastest.hpp"

namespace flyball::measure {
namespace {

std::uint32_t count_of(const policy::Facts& facts, std::string_view name, std::uint32_t otherwise) {
  const policy::Fact* fact = facts.get(name);
  if (fact == nullptr) return otherwise;
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(std::get<std::int64_t>(fact->value), 1, std::int64_t{UINT32_MAX}));
}

// No more digits than were measured.
double rounded(double value) {
  return value < 100 ? std::round(value * 100) / 100 : std::round(value * 10) / 10;
}

// The probe's where it knows them, which count for as long as this process runs; else those that the store
// has, whose age set_facts looks at.
Ceilings ceilings_of(const Engine& engine, std::span<const Measured> measured) {
  if (engine.ceilings.read_gbps > 0) {
    Ceilings own = engine.ceilings;
    own.measured_at = std::numeric_limits<std::int64_t>::max();
    return own;
  }
  std::vector<Figure> figures;
  for (const Measured& m : measured)
    if (m.subject == subject_of(engine)) figures.push_back(m.figure);
  return ceilings_of(figures, 0);
}

// ", times 0.81 as seen"; "" of a factor that changes nothing.
std::string as_seen(double times) {
  if (times == 1) return "";
  char text[48];
  std::snprintf(text, sizeof text, ", times %.2g as seen", times);
  return text;
}

// The factor by which earlier predictions of this kind and basis were off. A load lasts as long as the latest
// ones did, also where it was measured: calibrate may have had the file in memory.
double correction(const PredictionLedger* ledger, const std::string& model, const std::string& backend,
                  Kind kind, Basis basis, double value) {
  if (ledger == nullptr) return 1;
  if (kind == Kind::load_ms)
    if (const auto seen = ledger->load_ms(model, backend, value); seen && value > 0) return *seen / value;
  if (basis == Basis::measured) return 1;
  switch (kind) {
    case Kind::load_ms:
      return ledger->correction(model, backend, Quantity::load_ms, basis);
    case Kind::ttft_ms:
      return ledger->correction(model, backend, Quantity::ttft_ms, basis);
    case Kind::prefill_tps:
      return 1 / ledger->correction(model, backend, Quantity::ttft_ms, basis);
    case Kind::decode_tps:
      return ledger->correction(model, backend, Quantity::decode_tps, basis);
    default:
      return 1;
  }
}

// Books are made on several threads.
std::uint64_t next_generation() {
  static std::atomic<std::uint64_t> made{0};
  return ++made;
}

std::chrono::seconds age(std::int64_t measured_at, std::int64_t now) {
  return std::chrono::seconds(std::max<std::int64_t>(now - measured_at, 0));
}

}  // namespace

Book::Book(std::span<const Measured> measured, std::span<const Engine> engines,
           std::span<const config::ModelEntry> models, BookOptions options)
    : ledger_(std::move(options.ledger)), generation_(next_generation()) {
  Digests none;
  Digests& digests = options.digests ? *options.digests : none;
  std::vector<Ceilings> ceilings;  // of each engine
  Ceilings processor;
  for (const Engine& engine : engines) {
    found_[engine.backend] = {engine.device, engine.driver};
    const Ceilings& known = ceilings.emplace_back(ceilings_of(engine, measured));
    if (known.read_gbps > 0) ceilings_at_[engine.backend] = known.measured_at;
    if (engine.backend == config::kCpu.id) processor = known;
  }
  const bool any = std::ranges::any_of(measured, [](const Measured& m) { return !m.subject.model.empty(); });
  for (const config::ModelEntry& model : models) {
    const std::string digest = any ? digests.of(model) : "";
    const auto size = options.sizes.find(model.id);
    for (std::size_t i = 0; i < engines.size(); ++i) {
      const Engine& engine = engines[i];
      const Pair pair{model.id, engine.backend};
      const Subject subject = subject_of(engine, digest, model);
      if (!digest.empty())
        for (const Measured& m : measured)
          if (m.subject == subject) figures_[pair].push_back(m.figure);
      if (size != options.sizes.end()) {
        const auto assumed = assumed_ceilings(engine.device_kinds, processor);
        if (Ceilings known = ceilings[i]; known.read_gbps > 0) {
          if (assumed) {  // nobody measures either of a device
            known.load_gbps = assumed->load_gbps;
            known.page_gbps = assumed->page_gbps;
          }
          priors_[pair].push_back({Roofline(known, size->second), Basis::roofline});
        }
        if (assumed) priors_[pair].push_back({Roofline(*assumed, size->second), Basis::assumed});
      }
      if (figures_.contains(pair) || priors_.contains(pair)) engines_[model.id].push_back(engine.backend);
    }
  }
}

const Book::Found* Book::found(const std::string& backend) const {
  const auto it = found_.find(backend);
  return it == found_.end() ? nullptr : &it->second;
}

const std::vector<Figure>& Book::figures_of(const Pair& pair) const {
  static const std::vector<Figure> kNone;
  const auto it = figures_.find(pair);
  return it == figures_.end() ? kNone : it->second;
}

// Goes by the first prior that has not expired and knows the rates that the kind takes.
std::optional<Book::Predicted> Book::predicted(const Pair& pair, Kind kind, std::uint32_t at,
                                               std::int64_t now) const {
  const auto priors = priors_.find(pair);
  if (priors == priors_.end()) return std::nullopt;
  for (const Prior& prior : priors->second) {
    if (now - prior.roofline.measured_at() > kLifetimeSeconds) continue;
    if (const auto prediction = prior.roofline.predict(kind, at)) return Predicted{&prior, *prediction};
  }
  return std::nullopt;
}

bool Book::knows_ceilings(const std::string& backend, std::int64_t now) const {
  const auto at = ceilings_at_.find(backend);
  return at != ceilings_at_.end() && now - at->second <= kLifetimeSeconds;
}

double prefill_share(const policy::TargetInstance& engine, const CpuThreads& threads) {
  const std::optional<std::uint32_t>& own = engine.settings.threads;
  if (!engine.is_own_engine() || engine.kind != config::kCpu.id || !own || threads.shared == 0) return 1;
  return static_cast<double>(std::min(*own, std::max(threads.usable, threads.shared))) / threads.shared;
}

void Book::set_facts(const std::string& model, std::int64_t now, policy::Facts& facts,
                     const CpuThreads& threads) const {
  const auto engines = engines_.find(model);
  if (engines == engines_.end()) return;
  for (const policy::TargetInstance& engine : facts.targets()->instances())
    if (!engine.remote && std::ranges::find(engines->second, engine.kind) != engines->second.end())
      set_facts_of(engine, model, now, threads, facts);
}

void Book::set_facts_of(const policy::TargetInstance& engine, const std::string& model, std::int64_t now,
                        const CpuThreads& threads, policy::Facts& facts) const {
  const std::uint32_t streams =
      std::max(count_of(facts, "workload.concurrency", 1), count_of(facts, "workload.batch_size", 1));
  const std::uint32_t prompt = count_of(facts, "workload.prompt_tokens", kPromptTokens);
  const auto integer = [](double value) { return static_cast<std::int64_t>(std::llround(value)); };
  const Pair pair{model, engine.kind};
  const std::vector<Figure>& figures = figures_of(pair);
  const double share = prefill_share(engine, threads);
  const auto set = [&](policy::TargetFact which, Kind kind, std::uint32_t at, auto convert,
                       double own_times = 1) {
    const policy::FactId fact = policy::fact_of(engine, which);
    const std::string as_own = own_times == 1 ? std::string()
                                              : ", by " + std::to_string(*engine.settings.threads) + " of " +
                                                    std::to_string(threads.shared) + " threads";
    // A figure of other threads is none that was measured of this engine.
    if (const auto figure = figure_at(figures, kind, at, now)) {
      const double times =
          correction(ledger_.get(), model, engine.kind, kind, Basis::measured, figure->value) * own_times;
      if (own_times == 1)
        return facts.set(fact, convert(figure->value * times), policy::kMeasuredSource + as_seen(times),
                         age(figure->measured_at, now));
      return facts.set(fact, convert(figure->value * times),
                       std::string(policy::kPredictedSource) + ": measured on " + engine.kind + as_own);
    }
    const auto found = predicted(pair, kind, at, now);
    if (!found) return;
    const double times =
        correction(ledger_.get(), model, engine.kind, kind, found->prior->basis, found->of.value);
    facts.set(fact, convert(found->of.value * times * own_times),
              policy::kPredictedSource + (": " + found->prior->roofline.basis(kind, found->of)) +
                  as_seen(times) + as_own);
  };
  using enum policy::TargetFact;
  set(decode_tps, Kind::decode_tps, streams, rounded);
  set(prefill_tps, Kind::prefill_tps, prompt, rounded, share);
  set(ttft, Kind::ttft_ms, prompt, integer, 1 / share);
  set(load_time, Kind::load_ms, 0, integer);
  set(watts, Kind::watts, 0, rounded);
}

bool Book::is_measured(const std::string& model, const std::string& backend, std::int64_t now) const {
  const std::vector<Figure>& figures = figures_of({model, backend});
  return std::ranges::all_of(std::array{Kind::load_ms, Kind::ttft_ms, Kind::prefill_tps, Kind::decode_tps},
                             [&](Kind kind) { return figure_at(figures, kind, 1, now).has_value(); });
}

std::optional<Book::Expected> Book::expected(const std::string& model, const std::string& backend, Kind kind,
                                             std::uint32_t at, std::int64_t now) const {
  const Pair pair{model, backend};
  if (const auto figure = figure_at(figures_of(pair), kind, at, now))
    return Expected{figure->value, Basis::measured};
  const auto found = predicted(pair, kind, at, now);
  if (!found) return std::nullopt;
  return Expected{found->of.value, found->prior->basis};
}

std::optional<Book::Expected> Book::likely(const std::string& model, const std::string& backend, Kind kind,
                                           std::uint32_t at, std::int64_t now) const {
  auto known = expected(model, backend, kind, at, now);
  if (known) known->value *= correction(ledger_.get(), model, backend, kind, known->basis, known->value);
  return known;
}

}  // namespace flyball::measure
