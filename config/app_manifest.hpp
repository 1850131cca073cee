// apps.d/*.yaml, typed: one app, who it is and what it declares about its workload. A manifest requests; the
// operator's config.yaml caps. docs/manifest.md describes each key.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "config/error.hpp"
#include "config/kept_prefix.hpp"

namespace flyball::config {

enum class WorkloadClass : std::uint8_t {
  chat,
  agent,
  rag,
  batch,
  completion,
  classification,
  summarization,
  extraction,
  embedding,
  fine_tuning
};
enum class Privacy : std::uint8_t { local_only, any };

// What holds where a manifest is silent; receipts tell a default from what an app declared.
inline constexpr WorkloadClass kDefaultClass = WorkloadClass::chat;
inline constexpr const char* kDefaultModality = "text";
inline constexpr std::uint32_t kDefaultWeight = 100, kBatchWeight = 25;
inline constexpr const char* kDefaultDelivery = "service";
inline constexpr Privacy kDefaultPrivacy = Privacy::local_only;

// Whether people wait for the answers: never for batch work. For summaries, extraction and classification
// only if the app or the request asks for speed, by an SLO of TTFT or TPOT or by objective: latency.
constexpr bool people_wait(WorkloadClass kind, bool asks_for_speed) noexcept {
  using enum WorkloadClass;
  const bool usually_unattended = kind == summarization || kind == extraction || kind == classification;
  return kind != batch && (!usually_unattended || asks_for_speed);
}

struct Workload {
  std::optional<WorkloadClass> kind;
  std::vector<std::string> modalities;                        // empty: not declared
  std::optional<std::uint32_t> prompt_tokens, output_tokens;  // typical
  std::optional<std::uint32_t> shared_prefix_tokens;
  std::optional<std::uint32_t> concurrency;
  std::optional<std::uint32_t> batch_size;  // prompts answered together
  std::optional<bool> fixed_critical;       // one model, always, and it matters
  std::optional<bool> structured_output;    // its answers follow a schema or a grammar
  std::optional<bool> draft_model;          // a small model may draft for it
  std::string delivery, phase, objective;   // "": not declared; the values are those of the policy's facts
};

struct Slo {
  std::optional<std::chrono::milliseconds> ttft, tpot, deadline;
  bool hard = false;  // a request whose prediction holds them nowhere is refused at once
};

struct AppLimits {
  std::uint32_t in_flight = 16;  // answers: a request with n: 4 counts as four
  std::uint32_t max_tokens = 0;  // per request; 0: the context
  // 0 is no limit. A token is one of a prompt or an answer, as `usage` counts them.
  std::uint32_t queue = 0;                // answers that may wait
  std::uint64_t requests_per_minute = 0;  // evenly, a minute's worth at once
  std::uint64_t bytes_per_minute = 0;     // of request bodies, the same
  std::uint64_t tokens_per_minute = 0;    // the same
  std::uint64_t tokens_per_day = 0;       // UTC
  std::uint64_t kv_tokens = 0;            // that its open requests may come to, together
  std::optional<std::uint32_t> weight;    // AppManifest::weight()
  bool may_evict = true;                  // other models' engines end so that its own find memory
  std::uint64_t resident = 0;             // bytes that engines loaded for it may hold together
  std::uint64_t held_bytes = 32ULL << 20; // of its request bodies and unread answers that the daemon holds
};

struct AppChat {
  // Text in a message that spells a control token of the model becomes it.
  bool control_tokens_in_content = false;
};

struct AppManifest {
  std::string id;  // the file's `app:` value
  std::string description;
  std::vector<Sha256> keys;                        // of each key
  std::optional<std::uint32_t> unix_uid;           // peers of the unix socket with this uid
  Workload workload;
  Slo slo;
  std::vector<std::string> models;  // model ids it may use; empty: all
  std::optional<Privacy> privacy;
  AppLimits limits;
  AppChat chat;
  std::vector<KeptPrefix> keep;
  bool accepts_unknown_fields = false;  // of requests; their receipts name them
  std::string source;  // file name, for messages
  std::string id_at;   // where the id stands: "scripts.yaml:2:6"
  std::vector<std::string> models_at;  // and where each of `models` does
  std::map<std::string, std::string> places;  // by key: "workload.class" to "scripts.yaml:4:3"

  // wanted: the stricter of the app's SLO and the request's.
  bool is_interactive(const Slo& wanted) const noexcept {
    return people_wait(workload.kind.value_or(kDefaultClass),
                       wanted.ttft || wanted.tpot || workload.objective == "latency");
  }
  // Its share of an engine that others want, too, beside a share of 100. Batch work has less than what a
  // person waits for, and is never starved there.
  std::uint32_t weight() const noexcept {
    return limits.weight.value_or(workload.kind == WorkloadClass::batch ? kBatchWeight : kDefaultWeight);
  }
};

// Every *.yaml of the directory in name order. Two apps of one id or one key: both files named. A key file
// that others may read is refused.
Result<std::vector<AppManifest>> load_apps(const std::filesystem::path& dir);
Result<AppManifest> parse_app(std::string_view yaml, std::string_view file_name);
// The same with every finding, for `flyball check`.
std::expected<std::vector<AppManifest>, std::vector<Error>> load_apps_all(const std::filesystem::path& dir);
// The apps of this configuration: apps_dir's, or the shipped example app where it is "".
Result<std::vector<AppManifest>> apps_of(const Config& config);
std::expected<std::vector<AppManifest>, std::vector<Error>> apps_of_all(const Config& config);
// Checks what only both files together show: default_app and the models that apps name must exist, and the
// models that keep prefixes must be open to their apps.
std::vector<Error> cross_check(const Config& config, const std::vector<AppManifest>& apps);
// JSON Schema of a manifest, from the table that the parser reads by.
std::string app_schema();

std::string_view to_string(WorkloadClass kind) noexcept;  // "chat"
std::span<const std::string_view> workload_classes() noexcept;
std::string_view to_string(Privacy privacy) noexcept;     // "local_only"
std::string_view to_string(KeptPrefix::Role role) noexcept;  // "system"

}  // namespace flyball::config
