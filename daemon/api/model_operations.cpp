#include "daemon/api/model_operations.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/app_models.hpp"
#include "config/name_list.hpp"
#include "daemon/api/features.hpp"
#include "daemon/api/framing.hpp"
#include "daemon/api/readiness.hpp"
#include "daemon/api/views.hpp"

namespace flyball::api {
namespace {

ListedModel listed(const InForce& state, const config::ModelEntry& model,
                   const std::map<std::string, std::string>& unavailable,
                   const std::map<std::string, LoadedModel>& loaded) {
  const BackendInfo* const file = state.settings->file_of(model);
  ListedModel out{&model, {}, {}, traits_of(file), route::served_context(model, file), file};
  if (const auto why = unavailable.find(model.id); why != unavailable.end()) out.unavailable = why->second;
  const auto found = loaded.find(model.id);
  if (found == loaded.end()) return out;
  const LoadedModel& one = found->second;
  out.loaded = true;
  out.digest = one.digest;
  out.held_bytes = one.bytes;
  out.device_bytes = one.device_bytes;
  if (one.ends_in)
    out.expires_at = std::time(nullptr) + std::chrono::ceil<std::chrono::seconds>(*one.ends_in).count();
  return out;
}

}  // namespace

void ModelOperations::run(const Call& call, ListModels operation) {
  const ModelsSeen seen = service_.models_seen(*call.state);
  const auto unavailable = unavailable_models(seen);
  const auto loaded = loaded_models(seen);
  std::vector<ListedModel> models;
  for (const config::ModelEntry& model : call.state->settings->config.models)
    if (config::may_use(*call.app, model)) models.push_back(listed(*call.state, model, unavailable, loaded));
  responder_.answer(call, operation.answer(models, started_));
}

void ModelOperations::run(const Call& call, ShowModel operation) {
  if (const auto known = check_fields(*call.app, operation.unknown); !known)
    return responder_.answer(call, pass(known));
  auto model = call.state->apps.model_for(*call.app, operation.name);
  if (!model) return responder_.answer(call, pass(model));
  const ModelsSeen seen = service_.models_seen(*call.state);
  responder_.answer(
      call, operation.answer(
                listed(*call.state, *model->entry, unavailable_models(seen), loaded_models(seen)), started_));
}

void ModelOperations::run(const Call& call, ListEngines) {
  responder_.answer(call,
                    engines_view(service_.dispatcher.fleet().status(), service_.dispatcher.fleet().memory()));
}

Result<const config::ModelEntry*> ModelOperations::model_and_engine(const std::string& model,
                                                                    const std::string& engine) {
  const std::vector<config::ModelEntry>& models = service_.in_force->settings->config.models;
  const config::ModelEntry* const found = config::named_model(models, model).entry;
  if (found == nullptr) {
    std::vector<std::string_view> known;
    for (const config::ModelEntry& one : models) known.push_back(one.id);
    return fail(ErrorCode::model_not_found, "There is no model " + config::not_among(model, known) + ".",
                "model");
  }
  std::vector<std::string> engines = service_.dispatcher.fleet().engines();
  for (std::string& own : service_.dispatcher.fleet().own_engines()) engines.push_back(std::move(own));
  if (!engine.empty() && std::ranges::find(engines, engine) == engines.end())
    return fail(
        ErrorCode::invalid_value,
        "This machine has no engine " + config::not_among(engine, {engines.begin(), engines.end()}) + ".",
        "engine");
  return found;
}

void ModelOperations::run(const Call& call, LoadModel operation) {
  const auto model = model_and_engine(operation.model, operation.engine);
  if (!model) return responder_.answer(call, pass(model));
  fleet::Fleet& fleet = service_.dispatcher.fleet();
  const std::vector<std::string> engines =
      operation.engine.empty() ? fleet.preload_engines(**model) : std::vector<std::string>{operation.engine};
  struct Loading {
    nlohmann::ordered_json body;
    std::optional<Error> trouble;  // the first
    std::size_t left = 0, ready = 0;
  };
  const auto loading = std::make_shared<Loading>();
  loading->body["model"] = (*model)->id;
  loading->left = engines.size();
  const auto waiting = std::make_shared<Call>(call);
  engine_calls_.insert(waiting);
  for (const std::string& engine : engines)
    fleet.acquire((*model)->id, engine,
                  [this, weak = std::weak_ptr(waiting), loading, engine](const Result<Backend*>& loaded) {
                    const auto asked = weak.lock();
                    if (!asked) return;
                    auto& one = loading->body["engines"].emplace_back();
                    one["engine"] = engine;
                    one["state"] = loaded ? "ready" : "failed";
                    if (loaded) ++loading->ready;
                    if (!loaded) one["error"] = loaded.error().message;
                    if (!loaded && !loading->trouble) loading->trouble = loaded.error();
                    if (--loading->left > 0) return;
                    if (loading->ready == 0)
                      responder_.answer(*asked, std::unexpected(*loading->trouble));
                    else
                      responder_.answer(*asked,
                                        json_response(loading->body.dump(
                                            -1, ' ', false, nlohmann::json::error_handler_t::replace)));
                    engine_calls_.erase(asked);
                  });
}

void ModelOperations::run(const Call& call, UnloadModel operation) {
  if (call.app != nullptr) {
    if (const auto known = check_fields(*call.app, operation.unknown); !known)
      return responder_.answer(call, pass(known));
    if (!is_operator(call)) return responder_.answer(call, std::unexpected(operation.unless_operator));
  }
  // A body that was parsed beside the loop may come late.
  if (service_.draining)
    return responder_.answer(call, fail(ErrorCode::shutting_down, "The daemon is shutting down."));
  const auto model = model_and_engine(operation.model, operation.engine);
  if (!model) return responder_.answer(call, pass(model));
  const auto waiting = std::make_shared<Call>(call);
  engine_calls_.insert(waiting);
  service_.dispatcher.fleet().unload(
      (*model)->id, operation.engine,
      [this, weak = std::weak_ptr(waiting), named = operation.model, write = operation.answer,
       id = (*model)->id](Result<std::vector<std::string>> unloaded) {
        const auto asked = weak.lock();
        if (!asked) return;
        if (!unloaded)
          responder_.answer(*asked, pass(unloaded));
        else
          responder_.answer(*asked, write({named, id, *unloaded, std::time(nullptr)}));
        engine_calls_.erase(asked);
      });
}

void ModelOperations::start_draining() {
  for (const auto& call : std::exchange(engine_calls_, {}))
    responder_.answer(*call, fail(ErrorCode::shutting_down, "The daemon is shutting down."));
}

}  // namespace flyball::api
