// Whether the daemon can serve, model by model: what /readyz and the lists of models say. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "config/error.hpp"
#include "daemon/fleet/fleet.hpp"
#include "daemon/http/message.hpp"

namespace flyball::api {

// The models, their files and their engines as they are known at one moment.
struct ModelsSeen {
  const config::Config& config;
  const std::map<std::string, Error>&
      file_troubles;  // ModelFilesRead::troubles of the latest start or reload
  std::vector<std::string>
      engines;  // ids of the engine kinds that this machine has; one without a worker can be tried
  std::vector<fleet::WorkerStatus> workers;
};

// {"status": "ready"}, or 503 with
//   "draining": the daemon ends;
//   "failed":   no engine can serve a model with `preload`, the default model (without one: the only model)
//               or any model, until an operator, a request or a later moment helps;
//   "loading":  a model with `preload` is on its way.
// `details`: with "models", each with its state, those of its engines, and the trouble with its file.
http::Response readiness_view(const ModelsSeen& seen, bool draining, bool details);

// State of one model on one engine, in /readyz's words: "ready", "loading", "waiting_for_memory",
// "restarting", "unloaded", "load_refused", "disabled" or "invalid".
std::string_view engine_state(const fleet::WorkerStatus& worker) noexcept;

// Why no engine can serve a model, by id, in words for apps: its file was absent, damaged or of an unknown
// kind at the latest start or reload, and no engine has loaded it since. Models that an engine may serve are
// absent.
std::map<std::string, std::string> unavailable_models(const ModelsSeen& seen);

// A model that engines have loaded.
struct LoadedModel {
  std::string digest;              // BackendInfo::digest of the file; "" where the engines differ in it
  std::uint64_t bytes = 0;         // that its engines hold: weights, KV and the rest
  std::uint64_t device_bytes = 0;  // of them those of engine kinds with devices
  // Until the last of its engines ends for want of work, if nobody asks for the model; nullopt: it never
  // does.
  std::optional<std::chrono::milliseconds> ends_in = std::chrono::milliseconds(0);
};
// The loaded models, by id. Models that no engine has loaded are absent.
std::map<std::string, LoadedModel> loaded_models(const ModelsSeen& seen);

}  // namespace flyball::api
