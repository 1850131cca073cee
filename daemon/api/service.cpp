#include "daemon/api/service.hpp"

#include <sys/random.h>

#include <charconv>
#include <chrono>
#include <ctime>
#include <random>
#include <unordered_set>

#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "daemon/api/admission.hpp"
#include "daemon/api/completion_request.hpp"
#include "daemon/api/error_table.hpp"
#include "daemon/api/explain.hpp"
#include "daemon/api/inference.hpp"
#include "daemon/api/views.hpp"
#include "daemon/route/dispatcher.hpp"
#include "daemon/route/records.hpp"

namespace flyball::api {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  if (getrandom(&bits, sizeof bits, 0) != sizeof bits)
    bits = static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
  return bits;
}

std::string hex(std::uint64_t value) {
  char text[17] = "0000000000000000";
  char digits[16];
  const auto end = std::to_chars(digits, digits + 16, value, 16).ptr;
  std::copy(digits, end, text + 16 - (end - digits));
  return {text, 16};
}

double milliseconds_since(http::TimePoint from) {
  return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
}

}  // namespace

struct Service::Impl {
  Impl(boost::asio::io_context& context, std::shared_ptr<const Settings> settings, policy::Facts hardware,
       fleet::Fleet& fleet, store::Writer* writer, std::vector<usage::AppDay> used,
       measure::Outcomes* predictions)
      : io(context),
        state(std::make_shared<const InForce>(std::move(settings))),
        store(writer),
        outcomes(predictions),
        receipt_store(writer),
        journal(io, writer, std::move(used)),
        dispatcher(io, fleet, std::move(hardware), metrics, journal),
        ids(random_bits()),
        seeds(random_bits()) {
    dispatcher.set_limits({state->settings->config.max_queue});
  }

  http::Response refused(const Error& error, std::string_view id, std::string_view allow);

  void infer(std::shared_ptr<http::Exchange> exchange, Operation operation, const config::AppManifest& app);
  std::expected<std::shared_ptr<route::Job>, route::Refusal> submit(
      const std::shared_ptr<Inference>& inference, InferenceRequest request, const std::string& id,
      const config::AppManifest& app, const config::ModelEntry& model);
  void over(Inference& inference, const Outcome& outcome, const std::string& app, const std::string& model,
            Operation operation);
  Result<http::Response> explain(const http::Request& request, const config::AppManifest& app);
  void receipt(std::shared_ptr<http::Exchange> exchange, const config::AppManifest& app);
  Result<http::Response> model(std::string_view id, const config::AppManifest& app) const;
  http::Response exposition();

  void answer(http::Exchange& exchange, Result<http::Response> result, const config::AppManifest* app,
              std::string_view operation);
  void log(std::string_view id, std::string_view app, std::string_view model, std::string_view backend,
           std::string_view operation, int status, std::string_view code, double ms,
           const Usage& usage) const;

  // A receipt that is being looked for in the store.
  struct Lookup {
    std::shared_ptr<http::Exchange> exchange;
    std::shared_ptr<const InForce> state;  // holds the app
    const config::AppManifest& app;
  };
  void found(const std::shared_ptr<Lookup>& lookup, Result<std::optional<route::Receipt>> receipt);

  boost::asio::io_context& io;
  metrics::Metrics metrics;
  std::shared_ptr<const InForce> state;
  store::Writer* const store;         // nullptr: none
  measure::Outcomes* const outcomes;  // nullptr: none
  route::ReceiptStore receipt_store;
  usage::Journal journal;
  route::Dispatcher dispatcher;
  std::uint64_t ids;      // request ids count up from a random start
  std::mt19937_64 seeds;  // for requests that bring none; recorded nowhere, so need not be secret
  const std::int64_t started = std::time(nullptr);
  std::unordered_set<std::shared_ptr<Inference>> active;
  std::unordered_set<std::shared_ptr<Lookup>> lookups;
  std::uint64_t finished = 0, inferences_finished = 0;
  bool draining = false;
};

http::Response Service::Impl::refused(const Error& error, std::string_view id, std::string_view allow) {
  http::Response response = error_response(error);
  if (!id.empty()) response.fields.push_back({"x-request-id", std::string(id)});
  if (error.code == ErrorCode::method_not_allowed) response.fields.push_back({"Allow", std::string(allow)});
  if (error.code == ErrorCode::invalid_api_key) response.fields.push_back({"WWW-Authenticate", "Bearer"});
  metrics.rejected(to_string(error.code));
  metrics.request_finished({}, response.status, 0);
  ++finished;
  return response;
}

void Service::Impl::log(std::string_view id, std::string_view app, std::string_view model,
                        std::string_view backend, std::string_view operation, int status,
                        std::string_view code, double ms, const Usage& usage) const {
  // Fields only, none of them the client's own words: no prompt, no key, no path it made up.
  spdlog::info(
      "{} {} {:.1f} ms | request_id={} app={} model={} backend={} operation={} status={} code={} "
      "ms={:.1f} prompt_tokens={} completion_tokens={}",
      operation, status, ms, id, app, model, backend, operation, status, code, ms, usage.prompt_tokens,
      usage.completion_tokens);
}

void Service::Impl::answer(http::Exchange& exchange, Result<http::Response> result,
                           const config::AppManifest* app, std::string_view operation) {
  const std::string_view app_id = app ? std::string_view(app->id) : "none";
  std::string_view code = "ok";
  int status = 0;
  if (result) {
    status = result->status;
    exchange.respond(std::move(*result));
  } else {
    code = to_string(result.error().code);
    http::Response response = error_response(result.error());
    status = response.status;
    metrics.rejected(code);
    exchange.respond(std::move(response));
  }
  metrics::RequestLabels labels;
  labels.app = app_id;
  labels.operation = operation;
  const double ms = milliseconds_since(exchange.readable());
  metrics.request_finished(labels, status, ms / 1e3);
  ++finished;
  if (operation != "observe")
    log(exchange.request().id, app_id, "none", "none", operation, status, code, ms, {});
}

// ---- inference
// -----------------------------------------------------------------------------------------------

void Service::Impl::infer(std::shared_ptr<http::Exchange> exchange, Operation operation,
                          const config::AppManifest& app) {
  const char* const name = to_string(operation);
  if (draining) {
    answer(*exchange, fail(ErrorCode::shutting_down, "The daemon is shutting down."), &app, name);
    return;
  }
  auto request = parse_inference_request(operation, exchange->request().body);
  std::string().swap(exchange->request().body);  // the request holds what it needs of it
  if (!request) {
    answer(*exchange, std::unexpected(std::move(request.error())), &app, name);
    return;
  }
  auto model = state->apps.model_for(app, request->model);
  if (!model) {
    answer(*exchange, std::unexpected(std::move(model.error())), &app, name);
    return;
  }
  auto max_tokens = apps::Registry::cap_max_tokens(app, request->base.max_tokens);
  if (!max_tokens) {
    answer(*exchange, std::unexpected(std::move(max_tokens.error())), &app, name);
    return;
  }
  request->base.max_tokens = *max_tokens;
  if (!request->seeded) request->base.sampling.seed = seeds();

  const std::string id = exchange->request().id;
  Inference::Shape shape;
  shape.envelope.operation = operation;
  shape.envelope.id = (operation == Operation::chat ? "chatcmpl-" : "cmpl-") + id.substr(id.find('-') + 1);
  shape.envelope.created = std::time(nullptr);
  shape.envelope.model = request->model.empty() ? (*model)->id : request->model;
  shape.envelope.usage_in_chunks = request->include_usage;
  shape.stream = request->stream;
  shape.include_usage = request->include_usage;
  shape.with_logprobs = request->base.sampling.top_logprobs >= 0;
  shape.n = request->n;
  shape.choices = static_cast<std::uint32_t>(request->choices());
  const auto inference = std::make_shared<Inference>(
      exchange, std::move(shape), metrics,
      [this, keep = state, app = &app, model = *model, operation](Inference& self, const Outcome& outcome) {
        over(self, outcome, app->id, model->id, operation);
      });
  active.insert(inference);
  exchange->observe(inference);
  auto job = submit(inference, std::move(*request), id, app, **model);
  if (!job) {
    inference->refuse(job.error());
    return;
  }
  inference->run(std::move(*job));
}

std::expected<std::shared_ptr<route::Job>, route::Refusal> Service::Impl::submit(
    const std::shared_ptr<Inference>& inference, InferenceRequest request, const std::string& id,
    const config::AppManifest& app, const config::ModelEntry& model) {
  route::JobSpec spec{id,
                      state,
                      *state->settings->tree,
                      app,
                      model,
                      traits_of(request),
                      std::move(request.base),
                      std::move(request.prompts),
                      request.n,
                      state->settings->file_of(model),
                      &state->settings->measured};
  return dispatcher.submit(std::move(spec), inference);
}

void Service::Impl::over(Inference& inference, const Outcome& outcome, const std::string& app,
                         const std::string& model, Operation operation) {
  metrics::RequestLabels labels{app, model, outcome.backend, to_string(operation)};
  const double ms = milliseconds_since(inference.exchange().readable());
  metrics.request_finished(labels, outcome.status, ms / 1e3);
  const std::string_view code = outcome.failed ? to_string(outcome.code) : "ok";
  if (outcome.failed && outcome.code != ErrorCode::cancelled) metrics.rejected(code);
  ++finished;
  ++inferences_finished;
  if (route::Job* job = inference.job(); job != nullptr) {
    job->answered(ms);  // from the first byte on, as ttft_ms: the job is younger
    receipt_store.keep(job->receipt());
  }
  // Alone at its beginning and at its end: who came between shows in the spread.
  if (outcomes != nullptr && outcome.timings && dispatcher.waiting() + dispatcher.running() == 0 &&
      measure::engine_was_idle(inference.job()->receipt().facts, outcome.backend))
    outcomes->answered(state->settings->measured, {model, outcome.backend, outcome.usage, *outcome.timings},
                       std::time(nullptr));
  log(inference.exchange().id(), app, model, outcome.backend, to_string(operation), outcome.status, code, ms,
      outcome.usage);
  active.erase(inference.shared_from_this());
}

// ---- everything else
// -----------------------------------------------------------------------------------------

Result<http::Response> Service::Impl::model(std::string_view id, const config::AppManifest& app) const {
  auto found = state->apps.model_for(app, id);
  if (!found) return std::unexpected(std::move(found.error()));
  return model_view(**found, started);
}

void Service::Impl::receipt(std::shared_ptr<http::Exchange> exchange, const config::AppManifest& app) {
  const std::string id(last_segment(exchange->request().path()));
  if (const auto recent = dispatcher.receipts().find(id, app.id)) {
    answer(*exchange, receipt_view(*recent), &app, "receipt");
    return;
  }
  const auto lookup = std::make_shared<Lookup>(Lookup{std::move(exchange), state, app});
  lookups.insert(lookup);
  // The writer's thread looks, behind what it has still to write or cannot; this one goes on meanwhile.
  const bool looks = receipt_store.find(
      id, app.id,
      [this, weak = std::weak_ptr(lookup), &context = io](Result<std::optional<route::Receipt>> receipt) {
        boost::asio::post(context, [this, weak, receipt = std::move(receipt)]() mutable {
          if (const auto asked = weak.lock()) found(asked, std::move(receipt));
        });
      });
  if (looks) return;
  if (store == nullptr) return found(lookup, std::nullopt);
  found(lookup, fail(ErrorCode::overloaded, "Too many receipts are being looked for in the store already."));
}

void Service::Impl::found(const std::shared_ptr<Lookup>& lookup,
                          Result<std::optional<route::Receipt>> receipt) {
  Result<http::Response> out =
      fail(ErrorCode::not_found, "There is no receipt of this app with that request id.");
  if (!receipt)
    out = std::unexpected(std::move(receipt.error()));
  else if (*receipt)
    out = receipt_view(**receipt);
  answer(*lookup->exchange, std::move(out), &lookup->app, "receipt");
  lookups.erase(lookup);
}

Result<http::Response> Service::Impl::explain(const http::Request& request, const config::AppManifest& app) {
  auto question = parse_explain_request(request.body, *state->settings->tree->targets);
  if (!question) return std::unexpected(std::move(question.error()));
  auto model = state->apps.model_for(app, question->traits.model_as_asked);
  if (!model) return std::unexpected(std::move(model.error()));
  const route::JobSpec spec{request.id,
                            state,
                            *state->settings->tree,
                            app,
                            **model,
                            question->traits,
                            {},
                            {},
                            1,
                            state->settings->file_of(**model),
                            &state->settings->measured};
  const route::Receipt receipt = dispatcher.explain(spec, question->overrides);
  http::Response out = receipt_view(receipt);
  out.fields.push_back({"x-flyball-route", receipt.summary()});
  return out;
}

http::Response Service::Impl::exposition() {
  const auto workers = dispatcher.fleet().status();
  metrics.set_workers(gauges_of(workers));
  tell_memory(dispatcher.fleet().memory(), metrics);
  metrics.set_requests(dispatcher.waiting(), dispatcher.running());
  metrics.set_fairness_gap(dispatcher.widest_gap());
  metrics.set_apps(gauges_of(state->settings->apps, journal.usage(), std::time(nullptr) / 86'400));
  if (outcomes != nullptr) tell_predictions(outcomes->ledger(), metrics);
  if (store != nullptr) {
    const store::Writer::Health health = store->health();
    metrics.set_store(health.written, health.dropped, health.failed);
  }
  http::Response out = json_response(metrics.exposition());
  out.content_type = "text/plain; version=0.0.4; charset=utf-8";
  return out;
}

// ---- http::Handler
// -------------------------------------------------------------------------------------------

Service::Service(boost::asio::io_context& io, std::shared_ptr<const Settings> settings,
                 policy::Facts hardware, fleet::Fleet& fleet, store::Writer* store,
                 std::vector<usage::AppDay> used, measure::Outcomes* outcomes)
    : impl_(std::make_unique<Impl>(io, std::move(settings), std::move(hardware), fleet, store,
                                   std::move(used), outcomes)) {}
Service::~Service() = default;

std::string Service::next_request_id() {
  return "req-" + hex(++impl_->ids);
}

std::optional<http::Response> Service::check_head(const http::Request& head, const http::Peer& peer) {
  std::string allow;
  const auto admitted = admit(*impl_->state, head, peer, allow);
  if (admitted) return std::nullopt;
  const std::string id = next_request_id();
  auto response = impl_->refused(admitted.error(), id, allow);
  impl_->log(id, "none", "none", "none", "refused", response.status, to_string(admitted.error().code), 0, {});
  return response;
}

http::Response Service::refuse(const Error& error, const http::Request*, const http::Peer&) {
  const std::string id = next_request_id();
  auto response = impl_->refused(error, id, {});
  impl_->log(id, "none", "none", "none", "refused", response.status, to_string(error.code), 0, {});
  return response;
}

void Service::handle(std::shared_ptr<http::Exchange> exchange) {
  std::string allow;
  const http::Request& request = exchange->request();
  const auto admitted = admit(*impl_->state, request, exchange->peer(), allow);
  if (!admitted) {  // a reload between head and body
    impl_->answer(*exchange, std::unexpected(admitted.error()), nullptr, "refused");
    return;
  }
  const auto state = impl_->state;  // keeps the app alive through this call
  const config::AppManifest* app = admitted->app;
  switch (admitted->route) {
    case RouteId::healthz:
      impl_->answer(*exchange, json_response("{\"status\":\"ok\"}\n"), app, "observe");
      return;
    case RouteId::readyz:
      impl_->answer(
          *exchange,
          readiness_view(state->settings->config, impl_->dispatcher.fleet().status(), impl_->draining), app,
          "observe");
      return;
    case RouteId::metrics:
      impl_->answer(*exchange, impl_->exposition(), app, "observe");
      return;
    case RouteId::models:
      impl_->answer(*exchange, models_view(state->settings->config, *app, impl_->started), app, "models");
      return;
    case RouteId::model:
      impl_->answer(*exchange, impl_->model(last_segment(request.path()), *app), app, "models");
      return;
    case RouteId::chat_completions:
      impl_->infer(std::move(exchange), Operation::chat, *app);
      return;
    case RouteId::completions:
      impl_->infer(std::move(exchange), Operation::completion, *app);
      return;
    case RouteId::explain:
      impl_->answer(*exchange, impl_->explain(request, *app), app, "explain");
      return;
    case RouteId::receipt:
      impl_->receipt(std::move(exchange), *app);
      return;
  }
}

bool Service::closing() const {
  return impl_->draining;
}

void Service::reload(std::shared_ptr<const Settings> settings) {
  impl_->state = std::make_shared<const InForce>(std::move(settings));
  impl_->dispatcher.set_limits({impl_->state->settings->config.max_queue});
  impl_->metrics.reload_succeeded(true);
}

void Service::start_draining() {
  impl_->draining = true;
}

void Service::abort_all(const Error& error) {
  const auto all = impl_->active;  // each one leaves the set as it ends
  for (const auto& inference : all) inference->abort(error);
}

std::size_t Service::in_flight() const noexcept {
  return impl_->active.size();
}
std::uint64_t Service::finished() const noexcept {
  return impl_->finished;
}
std::uint64_t Service::inferences_finished() const noexcept {
  return impl_->inferences_finished;
}
metrics::Metrics& Service::metrics() noexcept {
  return impl_->metrics;
}

}  // namespace flyball::api
