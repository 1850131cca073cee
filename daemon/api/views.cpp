#include "daemon/api/views.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/api/framing.hpp"
#include "daemon/api/readiness.hpp"
#include "daemon/usage/workload.hpp"

namespace flyball::api {
namespace {

bool ready(const fleet::WorkerStatus& worker) noexcept {
  return worker.state == fleet::WorkerState::ready;
}

}  // namespace

http::Response receipt_view(const route::Receipt& receipt, bool paths) {
  using nlohmann::json;
  json out = route::to_json(receipt);
  if (const auto engines = out.find("engines"); engines != out.end() && !paths)
    for (json& engine : *engines) engine.erase("model_path");
  // Some facts are other people's words (a driver's device name): bytes that are not UTF-8 become U+FFFD.
  return json_response(out.dump(-1, ' ', false, json::error_handler_t::replace));
}

http::Response engines_view(const std::vector<fleet::WorkerStatus>& workers,
                            const fleet::MemoryStatus& memory) {
  nlohmann::ordered_json out{{"engines", nlohmann::ordered_json::array()},
                             {"pools", nlohmann::ordered_json::array()}};
  for (const fleet::WorkerStatus& worker : workers) {
    if (worker.state == fleet::WorkerState::stopped && !worker.invalid) continue;
    auto& one = out["engines"].emplace_back();
    one["model"] = worker.model;
    one["engine"] = worker.backend;
    one["state"] = worker.ending ? "ending" : worker.held ? "held" : engine_state(worker);
    if (worker.pid > 0) one["pid"] = worker.pid;
    one["memory_bytes"] = worker.account_bytes;
    if (ready(worker)) {
      one["digest"] = worker.info.digest;
      one["context_tokens"] = worker.info.context_length;
      one["kv_bytes"] = worker.info.kv_bytes;
      if (worker.info.memory_locked) one["locked"] = *worker.info.memory_locked;
      if (worker.load.kv_blocks_total > 0)
        one["kv_used_ratio"] = static_cast<double>(worker.load.kv_blocks_used) / worker.load.kv_blocks_total;
      one["running"] = worker.load.running;
      one["waiting"] = worker.load.waiting;
      if (worker.idle) one["idle_ms"] = worker.idle->count();
    } else {
      if (worker.pause.count() > 0) one["for_ms"] = worker.pause.count();
      if (!worker.last_error.empty()) one["error"] = worker.last_error;
    }
  }
  for (const fleet::PoolStatus& pool : memory.pools)
    out["pools"].push_back({{"name", pool.name},
                            {"capacity_bytes", pool.capacity},
                            {"accounted_bytes", pool.accounted},
                            {"free_bytes", pool.free},
                            {"engines", pool.engines},
                            {"waiting", pool.waiting}});
  return json_response(out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

http::Response prefixes_view(const std::vector<route::KeptPrefixRecord>& prefixes, bool all) {
  nlohmann::json out{{"prefixes", nlohmann::json::array()}};
  for (const route::KeptPrefixRecord& prefix : prefixes) {
    out["prefixes"].push_back(route::to_json(prefix));
    if (!all) continue;
    nlohmann::json& one = out["prefixes"].back();
    one["app"] = prefix.app;
    if (!prefix.cause.empty()) one["reason"] = prefix.cause;
  }
  return json_response(out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::vector<metrics::Metrics::AppGauges> gauges_of(const std::vector<config::AppManifest>& apps,
                                                   const usage::DailyUsage& days, std::int64_t today) {
  std::vector<metrics::Metrics::AppGauges> out;
  for (const config::AppManifest& app : apps) {
    auto& gauges = out.emplace_back();
    gauges.app = app.id;
    gauges.tokens_per_day = static_cast<double>(app.limits.tokens_per_day);
    usage::DayUsage lately;
    for (std::int64_t day = today - usage::DailyUsage::kKeptDays; day <= today; ++day)
      if (const usage::DayUsage* used = days.find(app.id, day)) {
        lately += *used;
        if (day == today) gauges.tokens_today = static_cast<double>(used->charged_tokens());
      }
    for (const usage::Compared& one : usage::compare(app.workload, lately))
      if (one.declared >= 0) gauges.workload_drift = std::max(gauges.workload_drift, one.factor());
  }
  return out;
}

std::vector<metrics::Metrics::WorkerGauges> gauges_of(const std::vector<fleet::WorkerStatus>& workers) {
  std::vector<metrics::Metrics::WorkerGauges> out;
  for (const fleet::WorkerStatus& worker : workers) {
    auto& gauges = out.emplace_back();
    gauges.model = worker.model;
    gauges.backend = worker.backend;
    gauges.loaded = ready(worker) ? 1 : 0;
    gauges.restarts = worker.restarts;
    gauges.account_bytes = static_cast<double>(worker.account_bytes);
    if (!ready(worker)) continue;
    const BackendInfo& info = worker.info;
    const BackendLoad& load = worker.load;
    gauges.resident_bytes = static_cast<double>(info.weight_bytes + info.kv_bytes + info.scratch_bytes);
    gauges.kv_blocks = load.kv_blocks_total;
    gauges.kv_blocks_used = load.kv_blocks_used;
    gauges.preemptions = static_cast<double>(load.preemptions);
    gauges.kv_spills = load.spills ? 1 : 0;
    gauges.kv_spilled_bytes = static_cast<double>(load.spilled_bytes);
    gauges.kv_restored_tokens = static_cast<double>(load.restored_tokens);
    if (load.kv_blocks_total > 0)
      gauges.kv_usage_ratio = static_cast<double>(load.kv_blocks_used) / load.kv_blocks_total;
    gauges.engine_running = load.running;
    gauges.engine_waiting = load.waiting;
    gauges.engine_completion_tokens = static_cast<double>(load.completion_tokens);
    gauges.prefix_queries = static_cast<double>(load.prompt_tokens);
    gauges.prefix_hits = static_cast<double>(load.cached_tokens);
  }
  return out;
}

void tell_memory(const fleet::MemoryStatus& memory, metrics::Metrics& metrics) {
  std::vector<metrics::Metrics::MemoryGauges> pools;
  for (const fleet::PoolStatus& pool : memory.pools)
    pools.push_back({pool.name, static_cast<double>(pool.capacity), static_cast<double>(pool.accounted),
                     static_cast<double>(pool.free), static_cast<double>(pool.waiting)});
  const metrics::Metrics::MemoryEvents events[] = {
      {"load", static_cast<double>(memory.loads)},
      {"eviction", static_cast<double>(memory.evictions)},
      {"idle_unload", static_cast<double>(memory.idle_unloads)},
      {"pressure_unload", static_cast<double>(memory.pressure_unloads)},
      {"unload", static_cast<double>(memory.unloads)},
      {"wait", static_cast<double>(memory.waits)},
      {"refusal", static_cast<double>(memory.refusals)}};
  metrics.set_memory(pools, events, memory.pressure);
}

void tell_predictions(const measure::PredictionLedger& ledger, metrics::Metrics& metrics) {
  const std::vector<measure::PredictionLedger::Summary> summaries = ledger.summaries();
  std::vector<metrics::Metrics::PredictionGauges> predictions;
  std::vector<metrics::Metrics::MarginGauge> margins;
  for (const measure::PredictionLedger::Summary& s : summaries) {
    predictions.push_back({s.backend, measure::to_string(s.quantity), measure::to_string(s.basis), s.mean,
                           s.spread, static_cast<double>(s.kept), s.latest.predicted, s.latest.actual});
    if (s.quantity == measure::Quantity::bytes) margins.push_back({s.backend, ledger.margin(s.backend)});
  }
  metrics.set_predictions(predictions, margins);
}

std::optional<measure::RequestSeen> request_seen(const route::Receipt& receipt) {
  const policy::TargetCatalogue& targets = *receipt.facts.targets();
  // The facts of a request that was decided again are younger than its first byte.
  if (receipt.attempts.size() != 1 || !receipt.redecisions.empty() ||
      !targets.knows(receipt.attempts.front().backend))
    return std::nullopt;
  measure::RequestSeen out{receipt.model, receipt.attempts.front().backend};
  const auto expected = [&](policy::TargetFact which) {
    const policy::Fact* fact = receipt.facts.get(targets.fact_of(out.backend, which));
    return fact == nullptr ? 0.0 : static_cast<double>(std::get<std::int64_t>(fact->value)) / 1e3;
  };
  out.expected_ttft = expected(policy::TargetFact::expected_ttft);
  out.expected_tpot = expected(policy::TargetFact::expected_tpot);
  out.ttft = receipt.ttft_ms;
  const std::uint32_t tokens = receipt.usage.completion_tokens;
  if (receipt.ttft_ms > 0 && tokens > measure::kLeastDecoded)
    out.tpot = (receipt.total_ms - receipt.ttft_ms) / (tokens - 1);
  return out;
}

void tell_prediction_errors(const predict::Predictor& predictor, metrics::Metrics& metrics) {
  std::vector<metrics::Metrics::PredictionErrorGauge> errors;
  const auto add = [&](std::string_view backend, std::string_view quantity, const predict::Accuracy& of) {
    if (of.seen() > 0)
      errors.push_back({backend, quantity, of.error(), of.coverage(), static_cast<double>(of.seen())});
  };
  for (const predict::Predictor::Quality& quality : predictor.quality()) {
    add(quality.backend, "ttft", *quality.ttft);
    add(quality.backend, "tpot", *quality.tpot);
  }
  metrics.set_prediction_errors(errors);
}

}  // namespace flyball::api
