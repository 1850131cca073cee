// Requests for answers of a model: from the operation that a codec read, over the model's words, the app's
// limits and the constraint, to the dispatcher; and the end of each in the books.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <unordered_set>

#include "backends/backend.hpp"
#include "config/config.hpp"
#include "config/error.hpp"
#include "daemon/api/app_thread.hpp"
#include "daemon/api/call.hpp"
#include "daemon/api/constraint_verdicts.hpp"
#include "daemon/api/inference.hpp"
#include "daemon/api/off_loop.hpp"
#include "daemon/api/operation.hpp"
#include "daemon/api/responder.hpp"
#include "daemon/api/service_state.hpp"

namespace flyball::api {

class Generation {
 public:
  // All outlive this. `parsing_thread`: large chats are put into their model's words there.
  Generation(ServiceState& service, Responder& responder, OffLoopRequests& off_loop,
             AppThread& parsing_thread, ConstraintVerdicts::Compile compile);
  ~Generation();

  void run(const Call& call, Generate request);
  void abort_all(const Error& error);  // ends the answers that in_flight() counts

  std::size_t in_flight() const noexcept { return active_.size(); }
  std::uint64_t finished() const noexcept { return finished_; }

 private:
  struct Checked;
  class Suiting;
  class Compiling;

  // A request whose prompt is what its model reads.
  void admit(const Call& call, Generate request, const config::ModelEntry& model, const BackendInfo* file);
  void submit(const Call& call, Checked checked);
  // The answer to the request begins, with an engine or with a refusal.
  std::shared_ptr<Inference> answering(const Call& call, Generate& request, const config::ModelEntry& model);
  void over(Inference& inference, const Outcome& outcome, const Call& call, const std::string& model);

  ServiceState& service_;
  Responder& responder_;
  OffLoopRequests& off_loop_;
  std::mt19937_64 seeds_;  // for requests that bring none; recorded nowhere, so need not be secret
  std::unordered_set<std::shared_ptr<Inference>> active_;  // from answering() to over(), refused ones too
  std::uint64_t finished_ = 0;
  ConstraintVerdicts verdicts_;  // the compiling thread's
  AppThread& parsing_thread_;
  AppThread compiling_thread_;  // last: its work reads `verdicts_`
};

}  // namespace flyball::api
