// Answers that are read off the daemon's state and change nothing: receipts, engine gauges. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/app_manifest.hpp"
#include "config/config.hpp"
#include "daemon/fleet/fleet.hpp"
#include "daemon/http/message.hpp"
#include "daemon/measure/outcomes.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/predict/predictor.hpp"
#include "daemon/route/receipts.hpp"
#include "daemon/usage/daily_usage.hpp"

namespace flyball::api {

// paths: with those of model files.
http::Response receipt_view(const route::Receipt& receipt, bool paths);
// The answer to GET /v1/engines: every engine that has a process or a trouble, and the memory that engines
// draw from. Numbers have their units in their names.
http::Response engines_view(const std::vector<fleet::WorkerStatus>& workers,
                            const fleet::MemoryStatus& memory);
// The answer to GET /v1/prefixes; `all`: of all apps, whose ids it has then.
http::Response prefixes_view(const std::vector<route::KeptPrefixRecord>& prefixes, bool all);
// Their names point into `workers`.
std::vector<metrics::Metrics::AppGauges> gauges_of(const std::vector<config::AppManifest>& apps,
                                                   const usage::DailyUsage& days, std::int64_t today);
std::vector<metrics::Metrics::WorkerGauges> gauges_of(const std::vector<fleet::WorkerStatus>& workers);
// Beside the facts that it was decided on; nullopt: several engines or answers, or none of this machine's.
std::optional<measure::RequestSeen> request_seen(const route::Receipt& receipt);
void tell_memory(const fleet::MemoryStatus& memory, metrics::Metrics& metrics);
void tell_predictions(const measure::PredictionLedger& ledger, metrics::Metrics& metrics);
void tell_prediction_errors(const predict::Predictor& predictor, metrics::Metrics& metrics);

}  // namespace flyball::api
