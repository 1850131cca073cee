// Operations on models and the engines that have them: lists, the description of one model, loading and
// unloading.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <unordered_set>

#include "config/config.hpp"
#include "config/error.hpp"
#include "daemon/api/call.hpp"
#include "daemon/api/operation.hpp"
#include "daemon/api/responder.hpp"
#include "daemon/api/service_state.hpp"

namespace flyball::api {

class ModelOperations {
 public:
  ModelOperations(ServiceState& service, Responder& responder)  // both outlive this
      : service_(service), responder_(responder) {}

  void run(const Call& call, ListModels operation);
  void run(const Call& call, ShowModel operation);
  void run(const Call& call, ListEngines operation);
  // Answers when each engine kind has loaded the model or could not. One that could makes the call a success.
  void run(const Call& call, LoadModel operation);
  void run(const Call& call, UnloadModel operation);
  // Answers the calls that wait for the fleet: the daemon ends.
  void start_draining();

 private:
  // The model by id or alias, whoever may use it, and the engine kind, which this machine must have or which
  // is "".
  Result<const config::ModelEntry*> model_and_engine(const std::string& model, const std::string& engine);

  ServiceState& service_;
  Responder& responder_;
  const std::int64_t started_ = std::time(nullptr);
  std::unordered_set<std::shared_ptr<Call>> engine_calls_;  // wait for the fleet to load or unload a model
};

}  // namespace flyball::api
