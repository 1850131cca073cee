#include "daemon/api/generation.hpp"

#include <ctime>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "config/app_models.hpp"
#include "daemon/api/answer_share.hpp"
#include "daemon/api/request_ids.hpp"
#include "daemon/api/slo_fields.hpp"
#include "daemon/api/suit_to_model.hpp"
#include "daemon/api/views.hpp"

namespace flyball::api {

// A request that has passed every check but that of its constraint.
struct Generation::Checked {
  Generate request;
  const config::ModelEntry& model;  // owned by the call's state
  const BackendInfo* file;          // nullptr: not known
  route::RequestTraits traits;
  std::optional<route::Dispatcher::Admission> admission;   // nullopt: its places were given back
  std::optional<route::ConstraintRecord> constraint = {};  // nullopt: it has none
};

// A large chat is put into the words of its model, and its print is taken.
class Generation::Suiting final : public OffLoop {
 public:
  Suiting(Generation& generation, Call request, Generate asked, const config::ModelEntry& model,
          const BackendInfo* file)
      : OffLoop(generation.off_loop_, generation.parsing_thread_, std::move(request)),
        generation_(generation),
        predictor_(generation.service_.dispatcher.predictor()),
        asked_(std::move(asked)),
        model_(model),
        file_(file) {}

  // It touches nothing of `generation_`, which ends before the thread.
  void work() override {
    try {
      suited_ = suit_to_model(asked_, file_);
      if (suited_ && asked_.prints.empty())
        asked_.prints = predictor_.prints_of(asked_.prompts, call.app->id);
    } catch (const std::bad_alloc&) {
      no_memory_ = true;
    }
  }

 private:
  void go_on() override {
    if (no_memory_)
      return generation_.responder_.answer(
          call, fail(ErrorCode::insufficient_memory, "There is no memory to put the prompt together in."));
    if (!suited_) return generation_.responder_.answer(call, pass(suited_));
    generation_.admit(call, std::move(asked_), model_, file_);
  }

  Generation& generation_;
  const predict::Predictor& predictor_;
  Generate asked_;
  const config::ModelEntry& model_;  // owned by the call's state
  const BackendInfo* const file_;    // the same
  Result<void> suited_;
  bool no_memory_ = false;
};

// The constraint of a request's answers is compiled.
class Generation::Compiling final : public OffLoop {
 public:
  Compiling(Generation& generation, Call request, Checked checked)
      : OffLoop(generation.off_loop_, generation.compiling_thread_, std::move(request)),
        generation_(generation),
        checked_(std::move(checked)) {}

  void work() override {
    try {
      verdict_ = generation_.verdicts_.judge(call.app->id, *checked_.request.base.constraint);
      // constraint_refusal() walks the constraint, which may be as long as the request.
      if (verdict_.refusal) refusal_ = constraint_refusal(checked_.request, *verdict_.refusal);
    } catch (const std::bad_alloc&) {
      no_memory_ = true;
    }
  }
  void let_go() override { checked_.admission.reset(); }

 private:
  void go_on() override {
    if (no_memory_)
      return generation_.responder_.answer(
          call, fail(ErrorCode::insufficient_memory, "There is no memory to compile the constraint in."));
    if (refusal_) return generation_.responder_.answer(call, std::unexpected(std::move(*refusal_)));
    checked_.constraint = {.kind = std::move(verdict_.kind),
                           .digest = std::move(verdict_.digest),
                           .compile_us = verdict_.took_us};
    checked_.request.schema_places = std::vector<SchemaPlace>();
    generation_.submit(call, std::move(checked_));
  }

  Generation& generation_;
  Checked checked_;
  ConstraintVerdict verdict_;
  std::optional<Error> refusal_;  // of the constraint, as an answer to the client
  bool no_memory_ = false;        // to find the verdict in
};

Generation::Generation(ServiceState& service, Responder& responder, OffLoopRequests& off_loop,
                       AppThread& parsing_thread, ConstraintVerdicts::Compile compile)
    : service_(service),
      responder_(responder),
      off_loop_(off_loop),
      seeds_(random_bits()),
      verdicts_(compile),
      parsing_thread_(parsing_thread),
      compiling_thread_(service.io) {}
Generation::~Generation() = default;

void Generation::run(const Call& call, Generate request) {
  const config::AppManifest& app = *call.app;
  if (const auto known = check_fields(app, request.unknown); !known)
    return responder_.answer(call, pass(known));
  const auto named = call.state->apps.model_for(app, request.model);
  if (!named) return responder_.answer(call, pass(named));
  const config::ModelEntry& model = *named->entry;
  const BackendInfo* const file = call.state->settings->file_of(model);
  if (suited_bytes(request) > kParsedOnLoop && !suits_any_model(request, file))
    return off_loop_.begin(std::make_shared<Suiting>(*this, call, std::move(request), model, file));
  if (const auto suited = suit_to_model(request, file); !suited) return responder_.answer(call, pass(suited));
  admit(call, std::move(request), model, file);
}

void Generation::admit(const Call& call, Generate request, const config::ModelEntry& model,
                       const BackendInfo* file) {
  const config::AppManifest& app = *call.app;
  auto max_tokens = apps::Registry::cap_max_tokens(app, request.base.max_tokens);
  if (!max_tokens) return responder_.answer(call, pass(max_tokens));
  request.base.max_tokens = *max_tokens;  // the traits have the same
  route::RequestTraits traits = traits_of(request);
  traits.model_as_asked = config::named_model(call.state->settings->config.models, request.model).name;
  if (const auto read = read_slo_fields(call.exchange->request(), traits); !read)
    return responder_.answer(call, pass(read));
  if (!request.seeded) request.base.sampling.seed = seeds_();
  // Before the work of compiling: the request is in flight meanwhile.
  auto admission = service_.dispatcher.admit({app, model, request.prompts, request.n, request.base.max_tokens,
                                              call.body_bytes, request.base.wanted});
  if (!admission) return answering(call, request, model)->refuse(admission.error());
  const bool compiles = request.base.constraint.has_value();
  Checked checked{std::move(request), model, file, std::move(traits), std::move(*admission)};
  if (!compiles) return submit(call, std::move(checked));
  off_loop_.begin(std::make_shared<Compiling>(*this, call, std::move(checked)));
}

std::shared_ptr<Inference> Generation::answering(const Call& call, Generate& request,
                                                 const config::ModelEntry& model) {
  const config::AppManifest& app = *call.app;
  const std::string& id = call.exchange->id();
  request.writer->begin({id, std::time(nullptr), request.model.empty() ? model.id : request.model,
                         request.choices(),
                         route::served_context(model, call.state->settings->file_of(model))});
  const auto inference = std::make_shared<Inference>(
      call.exchange, call.codec, request,
      AnswerShare(service_.held.share_of(app.id), app.limits.held_bytes, call.body_bytes,
                  request.writer->remedy()),
      service_.metrics,
      [this, call, &model](Inference& self, const Outcome& outcome) { over(self, outcome, call, model.id); });
  active_.insert(inference);
  call.exchange->observe(inference);
  return inference;
}

void Generation::submit(const Call& call, Checked checked) {
  Generate& request = checked.request;
  const auto inference = answering(call, request, checked.model);
  if (auto reserved = inference->reserve(); !reserved) {
    route::Refusal refusal;
    refusal.error = std::move(reserved.error());
    return inference->refuse(refusal);
  }
  auto job = service_.dispatcher.submit({.id = call.exchange->id(),
                                         .keep = call.state,
                                         .tree = *call.state->settings->tree,
                                         .app = *call.app,
                                         .model = checked.model,
                                         .traits = std::move(checked.traits),
                                         .base = std::move(request.base),
                                         .prompts = std::move(request.prompts),
                                         .prints = std::move(request.prints),
                                         .n = request.n,
                                         .ignored_fields = request.unknown.listed(),
                                         .tools_in_system_message = request.tools_in_system_message,
                                         .constraint = std::move(checked.constraint),
                                         .file = checked.file,
                                         .measured = &call.state->settings->measured},
                                        std::move(*checked.admission), inference);
  inference->run(std::move(job));
}

void Generation::over(Inference& inference, const Outcome& outcome, const Call& call,
                      const std::string& model) {
  const std::string& app = call.app->id;
  metrics::RequestLabels labels{app, model, outcome.backend, call.route.operation};
  const double ms = milliseconds_since(inference.exchange().readable());
  service_.metrics.request_finished(labels, outcome.status, ms / 1e3);
  const std::string_view code = outcome.failed ? to_string(outcome.code) : "ok";
  if (outcome.failed && outcome.code != ErrorCode::cancelled) service_.metrics.rejected(code);
  ++service_.finished;
  ++finished_;
  if (route::Job* job = inference.job(); job != nullptr) {
    job->answered(ms);  // from the first byte on, as ttft_ms: the job is younger
    service_.receipt_store.keep(job->receipt());
  }
  if (service_.outcomes != nullptr && !outcome.failed && inference.job() != nullptr &&
      inference.wants_answer())
    if (const auto seen = request_seen(inference.job()->receipt()))
      service_.outcomes->requested(*seen, std::time(nullptr));
  // Alone at its beginning and at its end: who came between shows in the spread.
  if (service_.outcomes != nullptr && outcome.timings &&
      service_.dispatcher.waiting() + service_.dispatcher.running() == 0 &&
      !service_.dispatcher.kept().computes() &&
      measure::engine_was_idle(inference.job()->receipt().facts, outcome.backend))
    service_.outcomes->answered(service_.in_force->settings->measured,
                                {model, outcome.backend, outcome.usage, *outcome.timings},
                                std::time(nullptr));
  // A flood of failures for which no token was counted is no flood of lines.
  const bool uncounted = outcome.failed && outcome.usage.prompt_tokens + outcome.usage.completion_tokens == 0;
  if (!uncounted || service_.log.logs_whole(app, outcome.code))
    service_.log.log(inference.exchange().id(), app, model, outcome.backend, call.route.operation,
                     outcome.status, code, ms, outcome.usage);
  active_.erase(inference.shared_from_this());
}

void Generation::abort_all(const Error& error) {
  const auto active = active_;  // each one leaves its set as it ends
  for (const auto& inference : active) inference->abort(error);
}

}  // namespace flyball::api
