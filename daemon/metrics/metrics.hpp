// Every metric the daemon exports, by name, with its labels bounded by the configuration. Base units, prefix
// flyball_.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace flyball::metrics {

// Label values of one answered request. All come from the configuration or a closed list; "none" stands for
// absence.
struct RequestLabels {
  std::string_view app = "none", model = "none", backend = "none", operation = "none";
};

class Metrics {
 public:
  Metrics();
  ~Metrics();

  void request_finished(const RequestLabels& labels, int status, double seconds);
  void first_token(const RequestLabels& labels, double seconds);
  void output_token_time(const RequestLabels& labels, double seconds_per_token);
  void queue_wait(const RequestLabels& labels, double seconds);
  void tokens(const RequestLabels& labels, std::uint64_t prompt, std::uint64_t cached,
              std::uint64_t completion);
  void router_overhead(double seconds);
  void policy_evaluated(double seconds, std::string_view rule, std::string_view target);
  void fell_back(std::string_view from, std::string_view to);
  void redecided(std::string_view from, std::string_view to);  // backends; the same: the request stayed
  void rejected(std::string_view reason);  // an ErrorCode's spelling
  void reload_succeeded(bool ok);

  struct WorkerGauges {
    std::string_view model, backend;
    double loaded = 0;  // 1: yes
    double resident_bytes = 0, kv_usage_ratio = 0;
    double account_bytes = 0;  // of its pool of memory: predicted while it loads, then what it holds
    // As the engine itself counts.
    double engine_running = 0, engine_waiting = 0, engine_completion_tokens = 0;
    double prefix_queries = 0, prefix_hits = 0;  // tokens
    double kv_blocks = 0, kv_blocks_used = 0, preemptions = 0;
    double kv_spills = 0, kv_spilled_bytes = 0, kv_restored_tokens = 0;
    double restarts = 0;  // since the daemon started
  };
  void set_workers(std::span<const WorkerGauges> workers);  // all there are: what others had is forgotten
  struct MemoryGauges {                                     // of one pool
    std::string_view pool;
    double capacity = 0, accounted = 0, free = 0, waiting = 0;
  };
  struct MemoryEvents {
    std::string_view event;
    double count = 0;  // since the daemon started
  };
  // pressure: percent; absent: the system does not say.
  void set_memory(std::span<const MemoryGauges> pools, std::span<const MemoryEvents> events,
                  std::optional<double> pressure);
  struct ConnectionGauges {
    double silent = 0, idle = 0, working = 0, leaving = 0;
    double strangers = 0;                                    // on which no app is known yet
    double refused = 0, closed_silent = 0, closed_idle = 0;  // since the daemon started
  };
  void set_connections(const ConnectionGauges& connections);
  void set_requests(std::size_t waiting, std::size_t running);
  // Of what was to be written for the next start.
  void set_store(std::uint64_t written, std::uint64_t dropped, std::uint64_t failed);

  void set_lost_log_lines(std::uint64_t lines);  // since the start

  struct AppGauges {
    std::string_view app;
    double tokens_today = 0, tokens_per_day = 0;  // of the budget, which is 0 where there is none
    double workload_drift = 0;                    // see docs/service.md; 0: nothing to compare
  };
  void set_apps(std::span<const AppGauges> apps);  // all there are: what others had is forgotten
  void set_fairness_gap(double weighted_tokens);

  struct PredictionGauges {                     // of one engine's predictions of one kind
    std::string_view backend, kind, basis;      // all of closed lists
    double mean = 0, spread = 0, outcomes = 0;  // of actual over predicted; how many are kept
    double predicted = 0, actual = 0;           // the latest, in the kind's unit
  };
  struct MarginGauge {
    std::string_view backend;
    double share = 0;
  };
  struct PredictionErrorGauge {          // of what was predicted of requests
    std::string_view backend, quantity;  // "ttft", "tpot"
    double error = 0, coverage = 0, requests = 0;
  };
  void set_prediction_errors(std::span<const PredictionErrorGauge> errors);
  void set_predictions(std::span<const PredictionGauges> predictions, std::span<const MarginGauge> margins);

  std::string exposition() const;  // Prometheus text format 0.0.4
  // The part that one app may see: its own series, and figures that say nothing of other apps.
  std::string exposition_for(std::string_view app) const;
  // For tests and the router benchmark: a quantile read from the histogram's buckets, by linear
  // interpolation. Seconds.
  double router_overhead_quantile(double q) const;
  double policy_eval_quantile(double q) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flyball::metrics
