#include "daemon/api/readiness.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include <nlohmann/json.hpp>

#include "config/app_models.hpp"
#include "config/engine_kinds.hpp"
#include "daemon/api/framing.hpp"

namespace flyball::api {
namespace {

// State of one model on one engine, the best first. A model's state is the best of its engines'.
enum class State : std::uint8_t {
  ready,
  loading,
  waiting_for_memory,
  restarting,    // after a death, by itself
  unloaded,      // the next request loads it
  load_refused,  // its load has failed: the next request after a pause tries again
  disabled,      // it died too often
  invalid,       // the model's file or entry is wrong
};
constexpr std::array<std::string_view, 8> kNames{"ready",      "loading",  "waiting_for_memory",
                                                 "restarting", "unloaded", "load_refused",
                                                 "disabled",   "invalid"};
static_assert(kNames.size() == static_cast<std::size_t>(State::invalid) + 1);

State state_of(const fleet::WorkerStatus& worker) noexcept {
  switch (worker.state) {
    case fleet::WorkerState::ready:
      return State::ready;
    case fleet::WorkerState::starting:
      return worker.waits_for_memory ? State::waiting_for_memory : State::loading;
    case fleet::WorkerState::backoff:
      return worker.load_refused ? State::load_refused : State::restarting;
    case fleet::WorkerState::disabled:
      return State::disabled;
    case fleet::WorkerState::stopped:
      break;
  }
  return worker.invalid ? State::invalid : State::unloaded;
}

struct Model {
  const config::ModelEntry* entry;
  const Error* file_trouble;                                  // nullptr: none is known
  std::map<std::string, const fleet::WorkerStatus*> workers;  // by engine; nullptr: none was tried

  State state() const {
    State best = State::invalid;
    for (const auto& [engine, worker] : workers) best = std::min(best, state_on(worker));
    return best;
  }
  // No engine can load a wrong file, unless one has loaded it since it was read. A file that was absent may
  // have come by now, and the next request looks: readiness must let that request come.
  State state_on(const fleet::WorkerStatus* worker) const {
    const State state = worker == nullptr ? State::unloaded : state_of(*worker);
    const bool wrong_file = file_trouble != nullptr && (file_trouble->code == ErrorCode::model_invalid ||
                                                        file_trouble->code == ErrorCode::model_unsupported);
    return state == State::unloaded && wrong_file && (worker == nullptr || !worker->was_ready)
               ? State::invalid
               : state;
  }
  // In words for apps, who learn nothing of paths and users; "" where an engine may serve the model.
  std::string_view unavailable() const {
    const bool served = std::ranges::any_of(workers, [](const auto& worker_of) {
      return worker_of.second != nullptr && worker_of.second->was_ready;
    });
    if (served || state() < State::unloaded) return "";
    if (file_trouble == nullptr)
      return state() == State::invalid ? "no engine could load the model's file" : "";
    switch (file_trouble->code) {
      case ErrorCode::io_error:
        return "the model's file is absent, or the daemon may not read it";
      case ErrorCode::model_unsupported:
        return "no engine of this release can read the model's file";
      case ErrorCode::model_invalid:
        return "the model's file is damaged";
      default:
        return "";
    }
  }
  bool can_serve() const { return state() <= State::unloaded; }
  // The operator unloaded it, and the next request loads it.
  bool set_aside() const {
    return state() == State::unloaded && std::ranges::any_of(workers, [](const auto& worker_of) {
             return worker_of.second != nullptr && worker_of.second->unloaded;
           });
  }
  // A load failed and nobody tries again.
  bool gave_up() const {
    return !can_serve() ||
           (state() == State::unloaded && std::ranges::any_of(workers, [](const auto& entry_of) {
              return entry_of.second != nullptr && !entry_of.second->last_error.empty();
            }));
  }
};

std::vector<Model> models_of(const ModelsSeen& seen) {
  std::vector<Model> out;
  for (const config::ModelEntry& entry : seen.config.models) {
    const auto trouble = seen.file_troubles.find(entry.id);
    Model& model =
        out.emplace_back(Model{&entry, trouble == seen.file_troubles.end() ? nullptr : &trouble->second, {}});
    for (const std::string& engine : seen.engines) model.workers[engine] = nullptr;
    for (const fleet::WorkerStatus& worker : seen.workers)
      if (worker.model == entry.id) model.workers[worker.backend] = &worker;
    if (model.workers.empty()) model.workers[""] = nullptr;
  }
  return out;
}

bool is_default(const config::Config& config, const config::ModelEntry& model) {
  return config.default_model.empty() ? config.models.size() == 1
                                      : config::is_called(model, config.default_model);
}

std::string_view status_of(const config::Config& config, const std::vector<Model>& models) {
  bool loading = false;
  for (const Model& model : models) {
    if (model.entry->preload ? model.gave_up() : is_default(config, *model.entry) && !model.can_serve())
      return "failed";
    loading |= model.entry->preload && model.state() != State::ready && !model.set_aside();
  }
  if (std::ranges::none_of(models, &Model::can_serve)) return "failed";
  return loading ? "loading" : "ready";
}

nlohmann::ordered_json details_of(const std::vector<Model>& models) {
  auto out = nlohmann::ordered_json::object();
  for (const Model& model : models) {
    auto& one = out[model.entry->id];
    one["state"] = kNames[static_cast<std::size_t>(model.state())];
    if (model.file_trouble != nullptr && model.state() >= State::unloaded)
      one["error"] =
          (model.entry->embedded ? "" : model.entry->path.string() + ": ") + model.file_trouble->message;
    for (const auto& [engine, worker] : model.workers) {
      if (worker == nullptr) continue;
      auto& of_engine = one["engines"][engine];
      of_engine["state"] = kNames[static_cast<std::size_t>(model.state_on(worker))];
      if (worker->pause.count() > 0) of_engine["for_ms"] = worker->pause.count();
      if (state_of(*worker) != State::ready && !worker->last_error.empty())
        of_engine["error"] = worker->last_error;
    }
  }
  return out;
}

// Until the engine ends for want of work, from now; nullopt: it never does. keep: without work; 0: for ever.
std::optional<std::chrono::milliseconds> time_left(const fleet::WorkerStatus& worker,
                                                   std::chrono::milliseconds keep) {
  using std::chrono::milliseconds;
  if (worker.ending) return milliseconds(0);
  if (worker.pinned || keep.count() <= 0) return std::nullopt;
  return std::max(keep - worker.idle.value_or(milliseconds(0)), milliseconds(0));
}

}  // namespace

http::Response readiness_view(const ModelsSeen& seen, bool draining, bool details) {
  const std::vector<Model> models = models_of(seen);
  nlohmann::ordered_json body;
  body["status"] = draining ? "draining" : status_of(seen.config, models);
  if (details) body["models"] = details_of(models);
  http::Response out = json_response(body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  if (body["status"] != "ready") out.status = 503;
  return out;
}

std::string_view engine_state(const fleet::WorkerStatus& worker) noexcept {
  return kNames[static_cast<std::size_t>(state_of(worker))];
}

std::map<std::string, std::string> unavailable_models(const ModelsSeen& seen) {
  std::map<std::string, std::string> out;
  for (const Model& model : models_of(seen))
    if (const std::string_view why = model.unavailable(); !why.empty()) out[model.entry->id] = why;
  return out;
}

std::map<std::string, LoadedModel> loaded_models(const ModelsSeen& seen) {
  std::map<std::string, LoadedModel> out;
  for (const fleet::WorkerStatus& worker : seen.workers) {
    const auto entry = std::ranges::find(seen.config.models, worker.model, &config::ModelEntry::id);
    if (worker.state != fleet::WorkerState::ready || entry == seen.config.models.end()) continue;
    const auto [at, is_first] = out.try_emplace(worker.model);
    LoadedModel& model = at->second;
    if (is_first)
      model.digest = worker.info.digest;
    else if (model.digest != worker.info.digest)
      model.digest.clear();
    const config::EngineKind* const kind = config::find_engine_kind(config::kind_of(worker.backend));
    model.bytes += worker.account_bytes;
    if (kind != nullptr && kind->has_devices()) model.device_bytes += worker.account_bytes;
    const auto ends_in = time_left(worker, entry->idle_unload.value_or(seen.config.memory.idle_unload));
    if (model.ends_in) model.ends_in = ends_in ? std::optional(std::max(*model.ends_in, *ends_in)) : ends_in;
  }
  return out;
}

}  // namespace flyball::api
