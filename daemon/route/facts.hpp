// What the policy is told about one request: the probe's hardware facts, and on top of them the app, its
// workload, the model, the request and the live state of the engines. docs/policy-language.md lists every
// fact.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/app_manifest.hpp"
#include "config/config.hpp"
#include "daemon/fleet/fleet.hpp"
#include "daemon/measure/book.hpp"
#include "policy/facts.hpp"

namespace flyball::route {

struct RequestTraits {
  std::string operation;       // "chat" or "completion"
  std::string model_as_asked;  // "" if the request named none
  std::uint64_t prompt_bytes = 0;
  std::uint32_t max_tokens = 0;  // 0: not given, the fact stays unknown
  std::uint32_t n = 1;
  bool stream = false, has_tools = false, wants_json = false;
  std::optional<std::chrono::milliseconds> slo_ttft, slo_tpot;  // of its headers
  std::chrono::milliseconds waited{0};  // since its admission, where it is decided again
};

// The app's SLO, with the times of the request's header that are stricter. Times count from the admission.
config::Slo wanted_slo(const config::AppManifest& app, const RequestTraits& request);
// True: no header of the request made that SLO stricter.
bool is_own_slo(const config::AppManifest& app, const RequestTraits& request);

// The threads of the cpu engine with this model, by the facts of the processor.
measure::CpuThreads cpu_threads(const config::ModelEntry& model, const policy::Facts& facts);

// Tokens that one sequence of the model is given, by configuration or file; 0: not known.
std::uint32_t served_context(const config::ModelEntry& model, const BackendInfo* file);

struct LiveState {  // of the fleet, as of now
  std::vector<fleet::WorkerStatus> workers;
  fleet::MemoryStatus memory;
};

// `probed`: how long ago the probe ran. `file`: what the model's file says of itself, for as long as no
// engine has loaded it; nullptr: not known. `measured`: what the daemon knows of its engines by measurement,
// at `now`, in seconds since 1970.
policy::Facts gather(const policy::Facts& hardware, std::chrono::milliseconds probed,
                     const config::AppManifest& app, const config::ModelEntry& model,
                     const RequestTraits& request, const LiveState& live,
                     const BackendInfo* file = nullptr, const measure::Book& measured = {},
                     std::int64_t now = 0);

// Makes engines unavailable that the request left while it waited, and those on the card of one that it left
// while that could be used: there it would compute beside the work that it did not wait for.
void bar_left(std::span<const std::string> left, policy::Facts& facts);

}  // namespace flyball::route
