#include "daemon/metrics/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <unordered_map>
#include <vector>

namespace flyball::metrics {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using Buckets = Histogram::BucketBoundaries;
using Labels = std::map<std::string, std::string>;

// Latencies of requests: 5 ms to 2 minutes.
const Buckets kRequestBuckets{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120};
// Time between tokens: 1 ms (a small model on a GPU) to 1 s.
const Buckets kTokenBuckets{0.001, 0.0025, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1};
// The router's own time: 10 us to 50 ms, fine around its targets (p50 200 us, p99 2 ms).
const Buckets kOverheadBuckets{10e-6,  20e-6,  30e-6,  40e-6,  50e-6,  75e-6,  100e-6, 125e-6,
                               150e-6, 200e-6, 250e-6, 300e-6, 400e-6, 500e-6, 750e-6, 1e-3,
                               1.5e-3, 2e-3,   3e-3,   5e-3,   10e-3,  50e-3};
// Policy evaluation: target at most 5 us.
const Buckets kPolicyBuckets{0.25e-6, 0.5e-6, 0.75e-6, 1e-6,  1.5e-6, 2e-6,   3e-6, 4e-6,
                             5e-6,    7.5e-6, 10e-6,   20e-6, 50e-6,  100e-6, 1e-3};

double quantile(const prometheus::MetricFamily& family, double q) {
  if (family.metric.empty()) return 0;
  const auto& histogram = family.metric.front().histogram;
  const double rank = q * static_cast<double>(histogram.sample_count);
  double below = 0, lower = 0;
  for (const auto& bucket : histogram.bucket) {
    const auto up_to = static_cast<double>(bucket.cumulative_count);
    if (up_to >= rank && up_to > below) {
      const double upper = bucket.upper_bound < 1e9 ? bucket.upper_bound : lower;
      return lower + (upper - lower) * (rank - below) / (up_to - below);
    }
    below = up_to;
    lower = bucket.upper_bound;
  }
  return lower;
}

// Without an app's label and shown to every app: they say nothing of other apps' requests.
constexpr std::string_view kOfNoApp[] = {"flyball_build_info", "flyball_config_last_reload_success"};

std::string as_text(const std::vector<prometheus::MetricFamily>& families) {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return std::move(out).str();
}

struct WorkerGauge {
  const char* name;
  const char* help;
  double Metrics::WorkerGauges::*value;
};
using Worker = Metrics::WorkerGauges;
constexpr WorkerGauge kWorkerGauges[] = {
    {"model_loaded", "1 while the model's engine is ready.", &Worker::loaded},
    {"model_resident_bytes", "Weights, KV cache and scratch of a ready engine.", &Worker::resident_bytes},
    {"model_account_bytes",
     "Of its memory pool: predicted while the engine loads, then what it says it holds.",
     &Worker::account_bytes},
    {"kv_cache_usage_ratio", "Share of KV blocks in use.", &Worker::kv_usage_ratio},
    {"engine_kv_blocks", "KV blocks the engine has.", &Worker::kv_blocks},
    {"engine_kv_blocks_used",
     "Of these, blocks that sequences hold; others are free, or kept as prefixes until needed.",
     &Worker::kv_blocks_used},
    {"engine_preemptions", "Sequences that gave their KV to another one, to be computed again.",
     &Worker::preemptions},
    {"engine_kv_spill",
     "1 while the engine keeps KV on disk; 0: it was not asked to, or the disk has failed.",
     &Worker::kv_spills},
    {"engine_kv_spilled_bytes", "KV the engine has written to the disk.", &Worker::kv_spilled_bytes},
    {"engine_kv_restored_tokens", "Tokens whose KV came back from the disk and was not computed again.",
     &Worker::kv_restored_tokens},
    {"engine_requests_running", "Sequences the engine itself works on.", &Worker::engine_running},
    {"engine_requests_waiting", "Sequences that wait inside the engine.", &Worker::engine_waiting},
    {"engine_completion_tokens", "Tokens the engine itself has generated since it started.",
     &Worker::engine_completion_tokens},
    {"engine_restarts", "Engine processes started again since the daemon started.", &Worker::restarts},
    {"engine_prefix_cache_queries", "Prompt tokens the engine has looked up in its prefix index.",
     &Worker::prefix_queries},
    {"engine_prefix_cache_hits", "Of these, tokens whose KV was there and was not computed again.",
     &Worker::prefix_hits},
};

}  // namespace

struct Metrics::Impl {
  using WorkerSeries = std::array<Gauge*, std::size(kWorkerGauges)>;  // in its order

  prometheus::Registry registry;

  Family<Counter>& requests =
      counter("requests_total", "Requests answered, by HTTP status (499: client closed).");
  Family<Histogram>& duration =
      histogram("request_duration_seconds", "From the first byte read to the end of the answer.");
  Family<Histogram>& ttft =
      histogram("time_to_first_token_seconds", "From the first byte read to the first token.");
  Family<Histogram>& tpot =
      histogram("time_per_output_token_seconds", "Decode time per token after the first.");
  Family<Histogram>& waited = histogram("queue_wait_seconds", "From admission to the first prefill step.");
  Family<Counter>& token_count =
      counter("tokens_total", "Tokens, by type: prompt, cached (of the prompt), completion.");
  Family<Counter>& decisions =
      counter("policy_decisions_total", "Decisions, by deciding rule and chosen target.");
  Family<Counter>& fallbacks =
      counter("fallbacks_total", "Requests moved to another target after a failure.");
  Family<Counter>& redecisions =
      counter("redecisions_total",
              "Decisions taken again while their request waited, by its engine before and after.");
  Family<Counter>& rejections = counter("rejections_total", "Requests refused, by error code.");
  Family<Gauge>& tokens_today =
      gauge("app_tokens_today", "Tokens of the UTC day, as the app's budget counts them.");
  Family<Gauge>& tokens_per_day = gauge("app_tokens_per_day", "The app's budget of tokens a day; 0: none.");
  Family<Gauge>& workload_drift = gauge(
      "app_workload_drift",
      "Observed over declared workload, or the reverse, where they differ most; 0: nothing to compare.");
  Family<Gauge>& build = gauge("build_info", "Always 1; the version is a label.");
  Histogram& overhead = histogram("router_overhead_seconds",
                                  "Request readable to first byte written, less the engine's own time.")
                            .Add({}, kOverheadBuckets);
  Histogram& policy_eval =
      histogram("policy_eval_seconds", "One evaluation of the policy tree.").Add({}, kPolicyBuckets);
  Family<Gauge>& connections = gauge(
      "connections",
      "Open connections: silent (no request yet), idle (between requests), working, leaving (refused).");
  Gauge& strangers =
      gauge("connections_of_strangers", "Open connections on which no app is known yet.").Add({});
  Family<Gauge>& connection_events =
      gauge("connection_events",
            "Connections refused, or closed to make room while silent or idle, since the start.");
  Family<Gauge>& store = gauge("store_writes", "Of the state database, since the start.");
  Family<Gauge>& memory_pool = gauge("memory_pool_bytes", "What engines may hold together.");
  Family<Gauge>& memory_accounted =
      gauge("memory_accounted_bytes", "What they hold, and what those that load were promised.");
  Family<Gauge>& memory_free = gauge("memory_free_bytes", "What an engine could be given now.");
  Family<Gauge>& memory_pressure = gauge(
      "memory_pressure_percent", "Of the last 10 s, in which somebody waited for the machine's memory.");
  Family<Gauge>& memory_waiting = gauge("memory_waiting", "Engines that wait for room.");
  Family<Gauge>& memory_events =
      gauge("memory_events",
            "Since the start: load, eviction, idle_unload, pressure_unload, unload, wait, refusal.");
  Gauge& fairness_gap =
      gauge("fairness_gap",
            "Most that the service of two apps that both waited has differed by, in weighted tokens.")
          .Add({});
  Family<Gauge>& prediction_ratio = gauge(
      "prediction_ratio", "Actual over predicted, mean of the latest: bytes, load_ms, ttft_ms, decode_tps.");
  Family<Gauge>& prediction_spread = gauge("prediction_ratio_spread", "Standard deviation of the same.");
  Family<Gauge>& prediction_outcomes = gauge("prediction_outcomes", "Of how many that is.");
  Family<Gauge>& predicted_last = gauge("predicted", "The latest prediction, in the unit of its kind.");
  Family<Gauge>& actual_last = gauge("prediction_actual", "What it then was.");
  Family<Gauge>& prediction_error =
      gauge("prediction_error_ratio",
            "Median of |actual - predicted| / actual over the latest requests: of the TTFT or the TPOT.");
  Family<Gauge>& prediction_coverage = gauge(
      "prediction_p90_coverage_ratio", "Share of the same requests that took at most the predicted p90.");
  Family<Gauge>& prediction_requests =
      gauge("prediction_requests", "Number of requests behind prediction_error_ratio.");
  Family<Gauge>& margin = gauge(
      "memory_margin_ratio", "Asked for beside the bytes that are predicted of a load, as a share of them.");
  Gauge& waiting = gauge("requests_waiting", "Admitted, no token yet.").Add({});
  Gauge& running = gauge("requests_running", "Producing tokens.").Add({});
  Gauge& log_lost = gauge("log_lines_lost",
                          "Log lines lost since the start: the log was written too slowly, or not at all.")
                        .Add({});
  Gauge& reload = gauge("config_last_reload_success", "1 if the last reload took effect.").Add({});

  std::vector<Family<Gauge>*> worker_families = [this] {  // as kWorkerGauges
    std::vector<Family<Gauge>*> out;
    for (const WorkerGauge& g : kWorkerGauges) out.push_back(&gauge(g.name, g.help));
    return out;
  }();
  std::map<std::pair<std::string, std::string>, WorkerSeries> workers;  // by model and backend
  std::set<std::string> apps;                                           // that have series of set_apps()

  // Series by the text of their labels: one lookup where the library would build and hash a map.
  std::unordered_map<std::string, Counter*> counters;
  std::unordered_map<std::string, Histogram*> histograms;
  std::string key;

  Family<Counter>& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(std::string("flyball_") + name).Help(help).Register(registry);
  }
  Family<Gauge>& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(std::string("flyball_") + name).Help(help).Register(registry);
  }
  Family<Histogram>& histogram(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(std::string("flyball_") + name).Help(help).Register(registry);
  }

  struct Label {
    const char* name;
    std::string_view value;
  };
  template <class List>
  static Labels make_labels(const List& list) {
    Labels out;
    for (const Label& l : list) out.emplace(l.name, l.value);
    return out;
  }
  template <class List>
  const std::string& key_for(const void* family, const List& list) {
    key.assign(reinterpret_cast<const char*>(&family), sizeof family);
    for (const Label& l : list) key.append(l.value).push_back('\0');
    return key;
  }
  Counter& find(Family<Counter>& family, std::initializer_list<Label> list) {
    Counter*& slot = counters[key_for(&family, list)];
    if (!slot) slot = &family.Add(make_labels(list));
    return *slot;
  }
  Histogram& find(Family<Histogram>& family, std::initializer_list<Label> list, const Buckets& buckets) {
    Histogram*& slot = histograms[key_for(&family, list)];
    if (!slot) slot = &family.Add(make_labels(list), buckets);
    return *slot;
  }
  Histogram& by_engine(Family<Histogram>& family, const RequestLabels& l, const Buckets& buckets) {
    return find(family, {{"app", l.app}, {"model", l.model}, {"backend", l.backend}}, buckets);
  }
  WorkerSeries worker_series(const Labels& labels) {
    WorkerSeries series{};
    for (std::size_t i = 0; i < series.size(); ++i) series[i] = &worker_families[i]->Add(labels);
    return series;
  }
  void remove(const WorkerSeries& series) {
    for (std::size_t i = 0; i < series.size(); ++i) worker_families[i]->Remove(series[i]);
  }
  const prometheus::MetricFamily* collected(const std::vector<prometheus::MetricFamily>& all,
                                            std::string_view name) const {
    for (const auto& family : all)
      if (family.name == name) return &family;
    return nullptr;
  }
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {
  impl_->build.Add({{"version", FLYBALL_VERSION}}).Set(1);
  impl_->reload.Set(1);
}
Metrics::~Metrics() = default;

void Metrics::request_finished(const RequestLabels& l, int status, double seconds) {
  impl_
      ->find(impl_->requests, {{"app", l.app},
                               {"model", l.model},
                               {"backend", l.backend},
                               {"operation", l.operation},
                               {"status", std::to_string(status)}})
      .Increment();
  impl_->by_engine(impl_->duration, l, kRequestBuckets).Observe(seconds);
}

void Metrics::first_token(const RequestLabels& l, double seconds) {
  impl_->by_engine(impl_->ttft, l, kRequestBuckets).Observe(seconds);
}

void Metrics::output_token_time(const RequestLabels& l, double seconds) {
  impl_->by_engine(impl_->tpot, l, kTokenBuckets).Observe(seconds);
}

void Metrics::queue_wait(const RequestLabels& l, double seconds) {
  impl_->by_engine(impl_->waited, l, kRequestBuckets).Observe(seconds);
}

void Metrics::tokens(const RequestLabels& l, std::uint64_t prompt, std::uint64_t cached,
                     std::uint64_t completion) {
  const auto add = [&](std::string_view type, std::uint64_t n) {
    if (n == 0) return;
    impl_
        ->find(impl_->token_count,
               {{"app", l.app}, {"model", l.model}, {"backend", l.backend}, {"type", type}})
        .Increment(static_cast<double>(n));
  };
  add("prompt", prompt);
  add("cached", cached);
  add("completion", completion);
}

void Metrics::router_overhead(double seconds) {
  impl_->overhead.Observe(seconds);
}

void Metrics::policy_evaluated(double seconds, std::string_view rule, std::string_view target) {
  impl_->policy_eval.Observe(seconds);
  impl_->find(impl_->decisions, {{"rule", rule}, {"target", target}}).Increment();
}

void Metrics::fell_back(std::string_view from, std::string_view to) {
  impl_->find(impl_->fallbacks, {{"from", from}, {"to", to}}).Increment();
}

void Metrics::redecided(std::string_view from, std::string_view to) {
  impl_->find(impl_->redecisions, {{"from", from}, {"to", to}}).Increment();
}

void Metrics::rejected(std::string_view reason) {
  impl_->find(impl_->rejections, {{"reason", reason}}).Increment();
}

void Metrics::reload_succeeded(bool ok) {
  impl_->reload.Set(ok ? 1 : 0);
}

void Metrics::set_memory(std::span<const MemoryGauges> pools, std::span<const MemoryEvents> events,
                         std::optional<double> pressure) {
  Gauge& now = impl_->memory_pressure.Add({});
  if (pressure)
    now.Set(*pressure);
  else
    impl_->memory_pressure.Remove(&now);  // the last one says nothing of today
  for (const MemoryGauges& pool : pools) {
    const Labels labels{{"pool", std::string(pool.pool)}};
    impl_->memory_pool.Add(labels).Set(pool.capacity);
    impl_->memory_accounted.Add(labels).Set(pool.accounted);
    impl_->memory_free.Add(labels).Set(pool.free);
    impl_->memory_waiting.Add(labels).Set(pool.waiting);
  }
  for (const MemoryEvents& e : events)
    impl_->memory_events.Add({{"event", std::string(e.event)}}).Set(e.count);
}

void Metrics::set_prediction_errors(std::span<const PredictionErrorGauge> errors) {
  for (const PredictionErrorGauge& e : errors) {
    const Labels labels{{"backend", std::string(e.backend)}, {"quantity", std::string(e.quantity)}};
    impl_->prediction_error.Add(labels).Set(e.error);
    impl_->prediction_coverage.Add(labels).Set(e.coverage);
    impl_->prediction_requests.Add(labels).Set(e.requests);
  }
}

void Metrics::set_predictions(std::span<const PredictionGauges> predictions,
                              std::span<const MarginGauge> margins) {
  for (const PredictionGauges& p : predictions) {
    const Labels labels{
        {"backend", std::string(p.backend)}, {"kind", std::string(p.kind)}, {"basis", std::string(p.basis)}};
    impl_->prediction_ratio.Add(labels).Set(p.mean);
    impl_->prediction_spread.Add(labels).Set(p.spread);
    impl_->prediction_outcomes.Add(labels).Set(p.outcomes);
    impl_->predicted_last.Add(labels).Set(p.predicted);
    impl_->actual_last.Add(labels).Set(p.actual);
  }
  for (const MarginGauge& m : margins) impl_->margin.Add({{"backend", std::string(m.backend)}}).Set(m.share);
}

void Metrics::set_workers(std::span<const WorkerGauges> workers) {
  auto& known = impl_->workers;
  std::erase_if(known, [&](const auto& entry) {
    const auto& [key, series] = entry;
    if (std::ranges::any_of(workers,
                            [&](const auto& w) { return w.model == key.first && w.backend == key.second; }))
      return false;
    impl_->remove(series);
    return true;
  });
  for (const WorkerGauges& w : workers) {
    std::pair key(std::string(w.model), std::string(w.backend));
    auto it = known.find(key);
    if (it == known.end()) {
      const auto series = impl_->worker_series({{"model", key.first}, {"backend", key.second}});
      it = known.emplace(std::move(key), series).first;
    }
    for (std::size_t i = 0; i < std::size(kWorkerGauges); ++i) it->second[i]->Set(w.*kWorkerGauges[i].value);
  }
}

void Metrics::set_connections(const ConnectionGauges& c) {
  const auto set = [](Family<Gauge>& family, const char* name, const char* label, double value) {
    family.Add({{name, label}}).Set(value);
  };
  set(impl_->connections, "state", "silent", c.silent);
  set(impl_->connections, "state", "idle", c.idle);
  set(impl_->connections, "state", "working", c.working);
  set(impl_->connections, "state", "leaving", c.leaving);
  set(impl_->connection_events, "event", "refused", c.refused);
  set(impl_->connection_events, "event", "closed_silent", c.closed_silent);
  set(impl_->connection_events, "event", "closed_idle", c.closed_idle);
  impl_->strangers.Set(c.strangers);
}

void Metrics::set_requests(std::size_t waiting, std::size_t running) {
  impl_->waiting.Set(static_cast<double>(waiting));
  impl_->running.Set(static_cast<double>(running));
}

void Metrics::set_store(std::uint64_t written, std::uint64_t dropped, std::uint64_t failed) {
  impl_->store.Add({{"result", "written"}}).Set(static_cast<double>(written));
  impl_->store.Add({{"result", "dropped"}}).Set(static_cast<double>(dropped));
  impl_->store.Add({{"result", "failed"}}).Set(static_cast<double>(failed));
}

void Metrics::set_lost_log_lines(std::uint64_t lines) {
  impl_->log_lost.Set(static_cast<double>(lines));
}

void Metrics::set_fairness_gap(double weighted_tokens) {
  impl_->fairness_gap.Set(weighted_tokens);
}

void Metrics::set_apps(std::span<const AppGauges> apps) {
  std::erase_if(impl_->apps, [&](const std::string& known) {
    if (std::ranges::any_of(apps, [&](const AppGauges& a) { return a.app == known; })) return false;
    const Labels labels{{"app", known}};
    for (Family<Gauge>* family : {&impl_->tokens_today, &impl_->tokens_per_day, &impl_->workload_drift})
      family->Remove(&family->Add(labels));
    return true;
  });
  for (const AppGauges& a : apps) {
    const Labels labels{{"app", *impl_->apps.emplace(a.app).first}};
    impl_->tokens_today.Add(labels).Set(a.tokens_today);
    impl_->tokens_per_day.Add(labels).Set(a.tokens_per_day);
    impl_->workload_drift.Add(labels).Set(a.workload_drift);
  }
}

std::string Metrics::exposition() const {
  return as_text(impl_->registry.Collect());
}

std::string Metrics::exposition_for(std::string_view app) const {
  std::vector<prometheus::MetricFamily> families = impl_->registry.Collect();
  const auto of_app = [&](const prometheus::ClientMetric& metric) {
    return std::ranges::any_of(metric.label,
                               [&](const auto& label) { return label.name == "app" && label.value == app; });
  };
  std::erase_if(families, [&](prometheus::MetricFamily& family) {
    if (std::ranges::find(kOfNoApp, family.name) != std::end(kOfNoApp)) return false;
    std::erase_if(family.metric, [&](const auto& metric) { return !of_app(metric); });
    return family.metric.empty();
  });
  return as_text(families);
}

double Metrics::router_overhead_quantile(double q) const {
  const auto all = impl_->registry.Collect();
  const auto* family = impl_->collected(all, "flyball_router_overhead_seconds");
  return family ? quantile(*family, q) : 0;
}

double Metrics::policy_eval_quantile(double q) const {
  const auto all = impl_->registry.Collect();
  const auto* family = impl_->collected(all, "flyball_policy_eval_seconds");
  return family ? quantile(*family, q) : 0;
}

}  // namespace flyball::metrics
