#include "daemon/api/service.hpp"

#include <chrono>
#include <ctime>
#include <new>
#include <random>
#include <unordered_set>

#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "config/app_models.hpp"
#include "config/name_list.hpp"
#include "daemon/api/admission.hpp"
#include "daemon/api/app_thread.hpp"
#include "daemon/api/constraint_verdicts.hpp"
#include "daemon/api/features.hpp"
#include "daemon/api/framing.hpp"
#include "daemon/api/inference.hpp"
#include "daemon/api/limit_fields.hpp"
#include "daemon/api/readiness.hpp"
#include "daemon/api/refusal_log.hpp"
#include "daemon/api/request_ids.hpp"
#include "daemon/api/slo_fields.hpp"
#include "daemon/api/suit_to_model.hpp"
#include "daemon/api/views.hpp"
#include "daemon/route/dispatcher.hpp"
#include "daemon/route/held_bytes.hpp"
#include "daemon/route/records.hpp"
#include "daemon/systemd/log_writer.hpp"
#include "policy/fact_json.hpp"

namespace flyball::api {
namespace {

using Clock = std::chrono::steady_clock;

// Takes turns beside the apps at the connections; no app has this id.
constexpr std::string_view kOperator = "<operator>";

// Longer bodies are parsed off the loop. One of this length takes up to 0.2 ms to parse where it is hostile,
// and the way to the other thread and back takes some 0.02 ms.
constexpr std::size_t kParsedOnLoop = 16 * 1024;
// Most bytes of a body on a path that takes none: the connection reads it to its end, and no app is charged
// for it.
constexpr std::uint64_t kUnusedBody = 1024;

std::int64_t today() {  // days since the epoch
  return std::time(nullptr) / 86'400;
}

bool takes_body(const Route& route) noexcept {
  return route.body != BodyType::none;
}

Result<void> check_fields(const config::AppManifest& app, const UnknownFields& unknown) {
  if (app.accepts_unknown_fields || !unknown.refusal()) return {};
  return std::unexpected(*unknown.refusal());
}

ListedModel listed(const InForce& state, const config::ModelEntry& model, std::string unavailable,
                   std::string digest) {
  const BackendInfo* const file = state.settings->file_of(model);
  return {
      &model, std::move(unavailable), std::move(digest), traits_of(file), route::served_context(model, file),
      file};
}

double milliseconds_since(http::TimePoint from) {
  return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
}

}  // namespace

struct Service::Impl {
  Impl(boost::asio::io_context& context, std::shared_ptr<const settings::Settings> settings,
       policy::Facts hardware, fleet::Fleet& fleet, store::Writer* writer, usage::Past past,
       measure::Outcomes* predictions, Codecs known, ConstraintVerdicts::Compile compile)
      : io(context),
        codecs(known),
        state(std::make_shared<const InForce>(std::move(settings))),
        store(writer),
        outcomes(predictions),
        receipt_store(writer),
        journal(io, writer, std::move(past)),
        dispatcher(io, fleet, std::move(hardware), metrics, journal),
        seeds(random_bits()),
        refusal_timer(io),
        verdicts(compile),
        parsing_thread(io),
        compiling_thread(io) {
    dispatcher.set_limits({state->settings->config.max_queue});
  }

  ~Impl() { tell_refusals(Clock::time_point::max()); }

  // A request that its head let in, while its body is received.
  struct Entry {
    std::shared_ptr<const InForce> state;
    RouteMatch match;
    const config::AppManifest* app;  // nullptr on open routes
    std::uint64_t charged = 0;       // bytes; the most that the body may have
    route::Standings standings;
    route::HeldBytes::Share held;  // of the app's bytes, for the body
  };

  // One request that was let in.
  struct Call {
    std::shared_ptr<http::Exchange> exchange;
    std::shared_ptr<const InForce> state;  // holds the app
    const Codec& codec;
    const Route& route;
    const config::AppManifest* app;  // nullptr on open routes
    std::uint64_t body_bytes;        // that the app was charged with
    route::Standings standings;      // as the charge left them
    // The body's share of the app's bytes: the daemon holds it, parsed or not, until the request has ended.
    std::shared_ptr<const route::HeldBytes::Share> held;
  };
  // A request that has passed every check but that of its constraint.
  struct Checked {
    Generate request;
    const config::ModelEntry& model;  // owned by the call's state
    const BackendInfo* file;          // nullptr: not known
    route::RequestTraits traits;
    std::optional<route::Dispatcher::Admission> admission;   // nullopt: its places were given back
    std::optional<route::ConstraintRecord> constraint = {};  // nullopt: it has none
  };
  class OffLoop;
  class Parsing;
  class Suiting;
  class Compiling;

  // One for each Operation.
  void run(const Call& call, Generate request);
  void run(const Call& call, ListModels operation);
  void run(const Call& call, ShowModel operation);
  void run(const Call& call, Tell operation);
  void run(const Call& call, TellHealth operation);
  void run(const Call& call, TellReadiness operation);
  void run(const Call& call, TellMetrics operation);
  void run(const Call& call, Explain question);
  void run(const Call& call, FindReceipt operation);
  void run(const Call& call, ListEngines operation);
  void run(const Call& call, LoadModel operation);
  void run(const Call& call, UnloadModel operation);

  // A request whose prompt is what its model reads.
  void admit(const Call& call, Generate request, const config::ModelEntry& model, const BackendInfo* file);
  void submit(const Call& call, Checked checked);
  // The answer to the request begins, with an engine or with a refusal.
  std::shared_ptr<Inference> answering(const Call& call, Generate& request, const config::ModelEntry& model);
  void over(Inference& inference, const Outcome& outcome, const Call& call, const std::string& model);
  bool sees_paths(const Call& call) const;
  void found(const std::shared_ptr<Call>& lookup, Result<std::optional<route::Receipt>> receipt);
  // The model by id or alias, whoever may use it, and the engine kind, which this machine must have or which
  // is "".
  Result<const config::ModelEntry*> model_and_engine(const std::string& model, const std::string& engine);
  http::Response exposition(const config::AppManifest* viewer);  // nullptr: the operator
  ModelsSeen models_seen(const Call& call) {
    const fleet::Fleet& fleet = dispatcher.fleet();
    return {call.state->settings->config, call.state->settings->files.troubles, fleet.engines(),
            fleet.status()};
  }

  const Codec& codec_of(const RouteMatch& match) const {
    if (match.codec != nullptr) return *match.codec;
    return match.nearest != nullptr ? *match.nearest : *codecs.front();
  }
  // The answer to a request that was not let in: its head may be all there is of it, or less.
  http::Response refused(const Error& error, const RouteMatch& match, std::string_view app = {});
  http::Response refused(const route::Refusal& refusal, const RouteMatch& match, const std::string& app);
  http::Response let_ask(const http::Request& preflight, const RouteMatch& match);
  std::optional<route::Refusal> charge(Entry& entry, const http::Request& head);
  void carry_out(const Call& call, Result<Operation> operation);
  void begin(const std::shared_ptr<OffLoop>& request);
  void end(OffLoop& request, const Error& error);  // before its thread has done with it
  void answer(const Call& call, Result<http::Response> result);
  void answer(http::Exchange& exchange, Result<http::Response> result, const Codec& codec,
              std::string_view app, std::string_view operation, const route::Standings& standings = {});
  void log(std::string_view id, std::string_view app, std::string_view model, std::string_view backend,
           std::string_view operation, int status, std::string_view code, double ms,
           const Usage& usage) const;
  // Whether the log has the whole line of this refusal. Where not, it is counted for a line of its own.
  bool logs_whole(std::string_view app, ErrorCode code);
  // The line of a request that no engine was asked for.
  void log_refusal(std::string_view id, std::string_view app, std::string_view operation, int status,
                   ErrorCode code, double ms);
  void tell_refusals(Clock::time_point now);
  void watch_refusals();

  boost::asio::io_context& io;
  const Codecs codecs;
  metrics::Metrics metrics;
  route::HeldBytes held;
  std::shared_ptr<const InForce> state;
  store::Writer* const store;         // nullptr: none
  measure::Outcomes* const outcomes;  // nullptr: none
  route::ReceiptStore receipt_store;
  usage::Journal journal;
  route::Dispatcher dispatcher;
  RequestIds ids;
  std::mt19937_64 seeds;  // for requests that bring none; recorded nowhere, so need not be secret
  const std::int64_t started = std::time(nullptr);
  std::unordered_set<std::shared_ptr<Inference>> active;
  std::unordered_set<std::shared_ptr<Call>> lookups;       // receipts that are being looked for in the store
  std::unordered_set<std::shared_ptr<Call>> engine_calls;  // wait for the fleet to load or unload a model
  std::unordered_set<std::shared_ptr<OffLoop>> off_loop;
  std::uint64_t finished = 0, inferences_finished = 0;
  std::function<metrics::Metrics::ConnectionGauges()> count_connections;  // empty: there is no server
  bool draining = false;
  RefusalLog refusals;
  boost::asio::steady_timer refusal_timer;
  bool watching_refusals = false;
  ConstraintVerdicts verdicts;  // the compiling thread's
  // Last: they use what `off_loop` holds. Two, so that no constraint delays another app's large body.
  AppThread parsing_thread, compiling_thread;
};

// A request that waits for another thread. Until done() the loop touches nothing that work() does.
class Service::Impl::OffLoop : public AppThread::Task,
                               public http::ExchangeObserver,
                               public std::enable_shared_from_this<OffLoop> {
 public:
  OffLoop(Impl& service, AppThread& by, Call request)
      : call(std::move(request)), thread(by), service_(service) {}

  // AppThread::Task
  void done() final {
    const auto self = shared_from_this();
    service_.off_loop.erase(self);
    if (over)
      let_go();
    else
      go_on();
  }
  // Gives back what the request holds of the dispatcher: its exchange may keep this for longer.
  virtual void let_go() {}
  // http::ExchangeObserver
  void on_disconnect() final {
    service_.end(*this, {ErrorCode::cancelled, "The client closed the connection.", {}, {}});
  }
  void on_drained() final {}
  void on_quiet() final {}
  void on_first_byte(http::TimePoint) final {}

  const Call call;
  AppThread& thread;
  bool over = false;  // answered, or its client is gone

 protected:
  virtual void go_on() = 0;  // on the loop, with the outcome of work()

  Impl& service_;
};

// A large body is parsed.
class Service::Impl::Parsing final : public OffLoop {
 public:
  Parsing(Impl& service, Call request) : OffLoop(service, service.parsing_thread, std::move(request)) {}

  void work() override {
    http::Request& request = call.exchange->request();
    try {
      operation_ = call.codec.parse(call.route, request);
    } catch (const std::bad_alloc&) {
      operation_ = fail(ErrorCode::insufficient_memory, "There is no memory to parse the body in.");
    }
    std::string().swap(request.body);  // the operation holds what it needs of it
  }

 private:
  void go_on() override { service_.carry_out(call, std::move(*operation_)); }

  std::optional<Result<Operation>> operation_;
};

// A large chat is put into the words of its model.
class Service::Impl::Suiting final : public OffLoop {
 public:
  Suiting(Impl& service, Call request, Generate asked, const config::ModelEntry& model,
          const BackendInfo* file)
      : OffLoop(service, service.parsing_thread, std::move(request)),
        asked_(std::move(asked)),
        model_(model),
        file_(file) {}

  void work() override {
    try {
      suited_ = suit_to_model(asked_, file_);
    } catch (const std::bad_alloc&) {
      no_memory_ = true;
    }
  }

 private:
  void go_on() override {
    if (no_memory_)
      return service_.answer(
          call, fail(ErrorCode::insufficient_memory, "There is no memory to tell the model its tools in."));
    if (!suited_) return service_.answer(call, pass(suited_));
    service_.admit(call, std::move(asked_), model_, file_);
  }

  Generate asked_;
  const config::ModelEntry& model_;  // owned by the call's state
  const BackendInfo* const file_;    // the same
  Result<void> suited_;
  bool no_memory_ = false;
};

// The constraint of a request's answers is compiled.
class Service::Impl::Compiling final : public OffLoop {
 public:
  Compiling(Impl& service, Call request, Checked checked)
      : OffLoop(service, service.compiling_thread, std::move(request)), checked_(std::move(checked)) {}

  void work() override {
    try {
      verdict_ = service_.verdicts.judge(call.app->id, *checked_.request.base.constraint);
    } catch (const std::bad_alloc&) {
      no_memory_ = true;
    }
  }
  void let_go() override { checked_.admission.reset(); }

 private:
  void go_on() override {
    if (no_memory_)
      return service_.answer(
          call, fail(ErrorCode::insufficient_memory, "There is no memory to compile the constraint in."));
    if (verdict_.refusal)
      return service_.answer(call, std::unexpected(constraint_refusal(checked_.request, *verdict_.refusal)));
    checked_.constraint = {.kind = std::move(verdict_.kind),
                           .digest = std::move(verdict_.digest),
                           .compile_us = verdict_.took_us};
    checked_.request.schema_places = std::vector<SchemaPlace>();
    service_.submit(call, std::move(checked_));
  }

  Checked checked_;
  ConstraintVerdict verdict_;
  bool no_memory_ = false;  // to find the verdict in
};

http::Response Service::Impl::refused(const Error& error, const RouteMatch& match, std::string_view app) {
  const Codec& codec = codec_of(match);
  const std::string id = ids.next();
  http::Response response = codec.error(error, id);
  response.fields.push_back({"x-request-id", id});
  if (!codec.id_field.empty()) response.fields.push_back({std::string(codec.id_field), id});
  response.last = error.code == ErrorCode::bad_framing;
  if (error.code == ErrorCode::method_not_allowed) response.fields.push_back({"Allow", match.allow});
  if (error.code == ErrorCode::invalid_api_key)
    for (const KeyPlace& place : codec.keys)
      if (!place.scheme.empty()) response.fields.push_back({"WWW-Authenticate", std::string(place.scheme)});
  const std::string_view code = to_string(error.code);
  metrics::RequestLabels labels;
  if (!app.empty()) {
    labels.app = app;
    labels.operation = match.route->operation;
  }
  metrics.rejected(code);
  metrics.request_finished(labels, response.status, 0);
  ++finished;
  log_refusal(id, app.empty() ? "none" : app, "refused", response.status, error.code, 0);
  return response;
}

http::Response Service::Impl::refused(const route::Refusal& refusal, const RouteMatch& match,
                                      const std::string& app) {
  ++journal.change(app, today()).refused;
  http::Response response = refused(refusal.error, match, app);
  append_standings(refusal.standings, response.fields);
  if (refusal.retry_after_ms >= 0) set_retry_after(refusal.retry_after_ms, response.fields);
  return response;
}

// Answers a preflight and writes no log line: browsers send a preflight before each path that a page asks.
http::Response Service::Impl::let_ask(const http::Request& preflight, const RouteMatch& match) {
  http::Response response = http::preflight_answer(preflight, match.allow);
  response.fields.push_back({"x-request-id", ids.next()});
  metrics::RequestLabels labels;
  labels.operation = "preflight";
  metrics.request_finished(labels, response.status, 0);
  ++finished;
  return response;
}

// Charges the app with the request, and holds room for its body until that has been parsed.
std::optional<route::Refusal> Service::Impl::charge(Entry& entry, const http::Request& head) {
  const config::AppManifest& app = *entry.app;
  const std::uint64_t limit = app.limits.held_bytes;
  const std::uint64_t most =
      head.chunked ? entry.state->settings->config.http.body_bytes : head.content_length.value_or(0);
  route::HeldBytes::Share share = held.share_of(app.id);
  route::Refusal refusal;
  if (most > limit) {
    refusal.error = {ErrorCode::body_too_large,
                     "The body has " + std::to_string(most) + " bytes; the daemon holds at most " +
                         std::to_string(limit) + " for the app (limits.held_bytes).",
                     {},
                     {}};
  } else if (!share.grow(most, limit)) {
    refusal.error = {
        ErrorCode::rate_limited,
        "The daemon holds " + std::to_string(held.held(app.id)) + " of at most " + std::to_string(limit) +
            " bytes for the app (limits.held_bytes), and this body has " + std::to_string(most) + ".",
        {},
        {}};
  } else if (auto charged = dispatcher.charge(app, most)) {
    entry.charged = most;
    entry.standings = *charged;
    entry.held = std::move(share);
    return std::nullopt;
  } else {
    refusal = std::move(charged.error());
  }
  refusal.standings = dispatcher.standings_of(app);
  if (head.chunked) refusal.error.message += " A body without Content-Length counts as http.body_bytes.";
  return refusal;
}

void Service::Impl::carry_out(const Call& call, Result<Operation> operation) {
  if (!operation) return answer(call, pass(operation));
  std::visit([&](auto& one) { run(call, std::move(one)); }, *operation);
}

void Service::Impl::begin(const std::shared_ptr<OffLoop>& request) {
  off_loop.insert(request);
  request->call.exchange->observe(request);
  request->thread.add(request->call.app->id, request);
}

void Service::Impl::end(OffLoop& one, const Error& error) {
  if (std::exchange(one.over, true)) return;
  answer(one.call, std::unexpected(error));
  // Work that has begun runs to its end, and its request counts as in flight until then.
  if (!one.thread.take_back(one)) return;
  one.let_go();
  off_loop.erase(one.shared_from_this());
}

bool Service::Impl::logs_whole(std::string_view app, ErrorCode code) {
  const auto now = Clock::now();
  tell_refusals(now);
  const bool whole = refusals.whole(app, code, now);
  watch_refusals();
  return whole;
}

void Service::Impl::log_refusal(std::string_view id, std::string_view app, std::string_view operation,
                                int status, ErrorCode code, double ms) {
  if (logs_whole(app, code)) log(id, app, "none", "none", operation, status, to_string(code), ms, {});
}

void Service::Impl::tell_refusals(Clock::time_point now) {
  for (const RefusalLog::Counted& one : refusals.ended(now))
    spdlog::info("{} more refused within {} s | app={} operation=refused code={} count={}", one.count,
                 RefusalLog::kSpan.count(), one.app, to_string(one.code), one.count);
}

void Service::Impl::watch_refusals() {
  const auto next = refusals.next_end();
  if (!next || std::exchange(watching_refusals, true)) return;
  refusal_timer.expires_at(*next);
  refusal_timer.async_wait([this](const boost::system::error_code& ec) {
    if (ec) return;
    watching_refusals = false;
    tell_refusals(Clock::now());
    watch_refusals();
  });
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

void Service::Impl::answer(const Call& call, Result<http::Response> result) {
  answer(*call.exchange, std::move(result), call.codec, call.app ? std::string_view(call.app->id) : "none",
         call.route.operation, call.standings);
}

void Service::Impl::answer(http::Exchange& exchange, Result<http::Response> result, const Codec& codec,
                           std::string_view app, std::string_view operation,
                           const route::Standings& standings) {
  std::optional<ErrorCode> refused;
  if (!result) {
    refused = result.error().code;
    if (*refused != ErrorCode::cancelled) metrics.rejected(to_string(*refused));
    result = codec.error(result.error(), exchange.id());
  }
  append_standings(standings, result->fields);
  if (!codec.id_field.empty()) result->fields.push_back({std::string(codec.id_field), exchange.id()});
  const int status = result->status;
  exchange.respond(std::move(*result));
  metrics::RequestLabels labels;
  labels.app = app;
  labels.operation = operation;
  const double ms = milliseconds_since(exchange.readable());
  metrics.request_finished(labels, status, ms / 1e3);
  ++finished;
  if (refused)
    log_refusal(exchange.id(), app, operation, status, *refused, ms);
  else if (operation != kObserve)
    log(exchange.id(), app, "none", "none", operation, status, "ok", ms, {});
}

// ---- inference --------------------------------------------------------------------------------------------

void Service::Impl::run(const Call& call, Generate request) {
  const config::AppManifest& app = *call.app;
  if (const auto known = check_fields(app, request.unknown); !known) return answer(call, pass(known));
  auto model = call.state->apps.model_for(app, request.model);
  if (!model) return answer(call, pass(model));
  const BackendInfo* const file = call.state->settings->file_of(**model);
  if (suited_bytes(request) > kParsedOnLoop && !suits_any_model(request, file))
    return begin(std::make_shared<Suiting>(*this, call, std::move(request), **model, file));
  if (const auto suited = suit_to_model(request, file); !suited) return answer(call, pass(suited));
  admit(call, std::move(request), **model, file);
}

void Service::Impl::admit(const Call& call, Generate request, const config::ModelEntry& model,
                          const BackendInfo* file) {
  const config::AppManifest& app = *call.app;
  auto max_tokens = apps::Registry::cap_max_tokens(app, request.base.max_tokens);
  if (!max_tokens) return answer(call, pass(max_tokens));
  request.base.max_tokens = *max_tokens;  // the traits have the same
  route::RequestTraits traits = traits_of(request);
  traits.model_as_asked = config::without_default_tag(call.state->settings->config.models, request.model);
  if (const auto read = read_slo_fields(call.exchange->request(), traits); !read)
    return answer(call, pass(read));
  if (!request.seeded) request.base.sampling.seed = seeds();
  // Before the work of compiling: the request is in flight meanwhile.
  auto admission = dispatcher.admit({app, model, request.prompts, request.n, request.base.max_tokens,
                                     call.body_bytes, request.base.wanted});
  if (!admission) return answering(call, request, model)->refuse(admission.error());
  const bool compiles = request.base.constraint.has_value();
  Checked checked{std::move(request), model, file, std::move(traits), std::move(*admission)};
  if (!compiles) return submit(call, std::move(checked));
  begin(std::make_shared<Compiling>(*this, call, std::move(checked)));
}

std::shared_ptr<Inference> Service::Impl::answering(const Call& call, Generate& request,
                                                    const config::ModelEntry& model) {
  const config::AppManifest& app = *call.app;
  const std::string& id = call.exchange->id();
  request.writer->begin({id, std::time(nullptr), request.model.empty() ? model.id : request.model,
                         request.choices(),
                         route::served_context(model, call.state->settings->file_of(model))});
  const auto inference = std::make_shared<Inference>(
      call.exchange, call.codec, request,
      AnswerShare(held.share_of(app.id), app.limits.held_bytes, call.body_bytes, request.writer->remedy()),
      metrics,
      [this, call, &model](Inference& self, const Outcome& outcome) { over(self, outcome, call, model.id); });
  active.insert(inference);
  call.exchange->observe(inference);
  return inference;
}

void Service::Impl::submit(const Call& call, Checked checked) {
  Generate& request = checked.request;
  const auto inference = answering(call, request, checked.model);
  if (auto reserved = inference->reserve(); !reserved) {
    route::Refusal refusal;
    refusal.error = std::move(reserved.error());
    return inference->refuse(refusal);
  }
  auto job = dispatcher.submit({.id = call.exchange->id(),
                                .keep = call.state,
                                .tree = *call.state->settings->tree,
                                .app = *call.app,
                                .model = checked.model,
                                .traits = std::move(checked.traits),
                                .base = std::move(request.base),
                                .prompts = std::move(request.prompts),
                                .n = request.n,
                                .ignored_fields = request.unknown.listed(),
                                .tools_in_system_message = request.tools_in_system_message,
                                .constraint = std::move(checked.constraint),
                                .file = checked.file,
                                .measured = &call.state->settings->measured},
                               std::move(*checked.admission), inference);
  inference->run(std::move(job));
}

void Service::Impl::over(Inference& inference, const Outcome& outcome, const Call& call,
                         const std::string& model) {
  const std::string& app = call.app->id;
  metrics::RequestLabels labels{app, model, outcome.backend, call.route.operation};
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
  if (outcomes != nullptr && !outcome.failed && inference.job() != nullptr && inference.wants_answer())
    if (const auto seen = request_seen(inference.job()->receipt()))
      outcomes->requested(*seen, std::time(nullptr));
  // Alone at its beginning and at its end: who came between shows in the spread.
  if (outcomes != nullptr && outcome.timings && dispatcher.waiting() + dispatcher.running() == 0 &&
      measure::engine_was_idle(inference.job()->receipt().facts, outcome.backend))
    outcomes->answered(state->settings->measured, {model, outcome.backend, outcome.usage, *outcome.timings},
                       std::time(nullptr));
  // A flood of failures for which no token was counted is no flood of lines.
  const bool uncounted = outcome.failed && outcome.usage.prompt_tokens + outcome.usage.completion_tokens == 0;
  if (!uncounted || logs_whole(app, outcome.code))
    log(inference.exchange().id(), app, model, outcome.backend, call.route.operation, outcome.status, code,
        ms, outcome.usage);
  active.erase(inference.shared_from_this());
}

// ---- everything else --------------------------------------------------------------------------------------

void Service::Impl::run(const Call& call, ListModels operation) {
  const ModelsSeen seen = models_seen(call);
  auto unavailable = unavailable_models(seen);
  auto digests = loaded_digests(seen);
  std::vector<ListedModel> models;
  for (const config::ModelEntry& model : call.state->settings->config.models)
    if (config::may_use(*call.app, model))
      models.push_back(
          listed(*call.state, model, std::move(unavailable[model.id]), std::move(digests[model.id])));
  answer(call, operation.answer(models, started));
}

void Service::Impl::run(const Call& call, ShowModel operation) {
  if (const auto known = check_fields(*call.app, operation.unknown); !known) return answer(call, pass(known));
  auto model = call.state->apps.model_for(*call.app, operation.name);
  if (!model) return answer(call, pass(model));
  const ModelsSeen seen = models_seen(call);
  const std::string& id = (*model)->id;
  answer(call,
         operation.answer(
             listed(*call.state, **model, unavailable_models(seen)[id], loaded_digests(seen)[id]), started));
}

void Service::Impl::run(const Call& call, Tell operation) {
  answer(call, std::move(operation.answer));
}

void Service::Impl::run(const Call& call, TellHealth) {
  answer(call, json_response("{\"status\":\"ok\"}"));
}

void Service::Impl::run(const Call& call, TellReadiness) {
  const bool details = is_operator(*call.state, call.codec, call.exchange->request(), call.exchange->peer());
  answer(call, readiness_view(models_seen(call), draining, details));
}

void Service::Impl::run(const Call& call, TellMetrics) {
  answer(call, exposition(call.app));
}

void Service::Impl::run(const Call& call, Explain question) {
  if (const auto known = check_fields(*call.app, question.unknown); !known) return answer(call, pass(known));
  if (const auto read = read_slo_fields(call.exchange->request(), question.traits); !read)
    return answer(call, pass(read));
  std::vector<policy::NamedFact> overrides;
  for (const auto& [name, value] : question.facts) {
    auto fact = policy::read_fact(name, value, *call.state->settings->tree->targets);
    if (!fact) {
      fact.error().param = "facts." + name.substr(0, 100);
      return answer(call, pass(fact));
    }
    overrides.push_back(std::move(*fact));
  }
  auto model = call.state->apps.model_for(*call.app, question.traits.model_as_asked);
  if (!model) return answer(call, pass(model));
  question.traits.model_as_asked =
      config::without_default_tag(call.state->settings->config.models, question.traits.model_as_asked);
  const BackendInfo* const file = call.state->settings->file_of(**model);
  const route::JobSpec spec{.id = call.exchange->id(),
                            .keep = call.state,
                            .tree = *call.state->settings->tree,
                            .app = *call.app,
                            .model = **model,
                            .traits = std::move(question.traits),
                            .base = {},
                            .prompts = {},
                            .ignored_fields = question.unknown.listed(),
                            .file = file,
                            .measured = &call.state->settings->measured};
  const route::Receipt receipt = dispatcher.explain(spec, overrides);
  http::Response out = receipt_view(receipt, sees_paths(call));
  out.fields.push_back({"x-flyball-route", receipt.summary()});
  answer(call, std::move(out));
}

void Service::Impl::run(const Call& call, FindReceipt operation) {
  const std::string& id = operation.request_id;
  const std::string& app = call.app->id;
  if (const auto recent = dispatcher.receipts().find(id, app))
    return answer(call, receipt_view(*recent, sees_paths(call)));
  const auto lookup = std::make_shared<Call>(call);
  lookups.insert(lookup);
  // The writer's thread looks, behind what it has still to write or cannot; this one goes on meanwhile.
  const bool looks = receipt_store.find(
      id, app,
      [this, weak = std::weak_ptr(lookup), &context = io](Result<std::optional<route::Receipt>> receipt) {
        boost::asio::post(context, [this, weak, receipt = std::move(receipt)]() mutable {
          if (const auto asked = weak.lock()) found(asked, std::move(receipt));
        });
      });
  if (looks) return;
  if (store == nullptr) return found(lookup, std::nullopt);
  found(lookup, fail(ErrorCode::overloaded, "Too many receipts are being looked for in the store already."));
}

// Paths of model files are not for an app with a key: it learns nothing of the operator's folders.
bool Service::Impl::sees_paths(const Call& call) const {
  return is_operator(*call.state, call.codec, call.exchange->request(), call.exchange->peer());
}

void Service::Impl::found(const std::shared_ptr<Call>& lookup,
                          Result<std::optional<route::Receipt>> receipt) {
  Result<http::Response> out =
      fail(ErrorCode::not_found, "There is no receipt of this app with that request id.");
  if (!receipt)
    out = pass(receipt);
  else if (*receipt)
    out = receipt_view(**receipt, sees_paths(*lookup));
  answer(*lookup, std::move(out));
  lookups.erase(lookup);
}

void Service::Impl::run(const Call& call, ListEngines) {
  answer(call, engines_view(dispatcher.fleet().status(), dispatcher.fleet().memory()));
}

Result<const config::ModelEntry*> Service::Impl::model_and_engine(const std::string& model,
                                                                  const std::string& engine) {
  const std::vector<config::ModelEntry>& models = state->settings->config.models;
  const std::string_view plain = config::without_default_tag(models, model);
  const auto found =
      std::ranges::find_if(models, [&](const config::ModelEntry& m) { return config::is_called(m, plain); });
  if (found == models.end()) {
    std::vector<std::string_view> known;
    for (const config::ModelEntry& one : models) known.push_back(one.id);
    return fail(ErrorCode::model_not_found, "There is no model " + config::not_among(model, known) + ".",
                "model");
  }
  const std::vector<std::string> engines = dispatcher.fleet().engines();
  if (!engine.empty() && std::ranges::find(engines, engine) == engines.end())
    return fail(
        ErrorCode::invalid_value,
        "This machine has no engine " + config::not_among(engine, {engines.begin(), engines.end()}) + ".",
        "engine");
  return &*found;
}

// Answers when each engine kind has loaded the model or could not. One that could makes the call a success.
void Service::Impl::run(const Call& call, LoadModel operation) {
  const auto model = model_and_engine(operation.model, operation.engine);
  if (!model) return answer(call, pass(model));
  fleet::Fleet& fleet = dispatcher.fleet();
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
  engine_calls.insert(waiting);
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
                      answer(*asked, std::unexpected(*loading->trouble));
                    else
                      answer(*asked, json_response(loading->body.dump(
                                         -1, ' ', false, nlohmann::json::error_handler_t::replace)));
                    engine_calls.erase(asked);
                  });
}

void Service::Impl::run(const Call& call, UnloadModel operation) {
  if (call.app != nullptr) {
    if (const auto known = check_fields(*call.app, operation.unknown); !known)
      return answer(call, pass(known));
    if (!is_operator(*call.state, call.codec, call.exchange->request(), call.exchange->peer()))
      return answer(call, std::unexpected(operation.unless_operator));
  }
  // A body that was parsed beside the loop may come late.
  if (draining) return answer(call, fail(ErrorCode::shutting_down, "The daemon is shutting down."));
  const auto model = model_and_engine(operation.model, operation.engine);
  if (!model) return answer(call, pass(model));
  const auto waiting = std::make_shared<Call>(call);
  engine_calls.insert(waiting);
  dispatcher.fleet().unload(
      (*model)->id, operation.engine,
      [this, weak = std::weak_ptr(waiting), named = operation.model, write = operation.answer,
       id = (*model)->id](Result<std::vector<std::string>> unloaded) {
        const auto asked = weak.lock();
        if (!asked) return;
        if (!unloaded)
          answer(*asked, pass(unloaded));
        else
          answer(*asked, write({named, id, *unloaded, std::time(nullptr)}));
        engine_calls.erase(asked);
      });
}

http::Response Service::Impl::exposition(const config::AppManifest* viewer) {
  const auto workers = dispatcher.fleet().status();
  metrics.set_workers(gauges_of(workers));
  tell_memory(dispatcher.fleet().memory(), metrics);
  metrics.set_requests(dispatcher.waiting(), dispatcher.running());
  metrics.set_fairness_gap(dispatcher.widest_gap());
  metrics.set_apps(gauges_of(state->settings->apps, journal.usage(), today()));
  if (count_connections) metrics.set_connections(count_connections());
  tell_prediction_errors(dispatcher.predictor(), metrics);
  if (outcomes != nullptr) tell_predictions(outcomes->ledger(), metrics);
  if (store != nullptr) {
    const store::Writer::Health health = store->health();
    metrics.set_store(health.written, health.dropped, health.failed);
  }
  metrics.set_lost_log_lines(systemd::lost_log_lines());
  http::Response out;
  out.body = viewer == nullptr ? metrics.exposition() : metrics.exposition_for(viewer->id);
  out.content_type = "text/plain; version=0.0.4; charset=utf-8";
  return out;
}

// ---- http::Handler ----------------------------------------------------------------------------------------

Service::Service(boost::asio::io_context& io, std::shared_ptr<const settings::Settings> settings,
                 policy::Facts hardware, fleet::Fleet& fleet, store::Writer* store, usage::Past past,
                 measure::Outcomes* outcomes, Codecs codecs, ConstraintVerdicts::Compile compile)
    : impl_(std::make_unique<Impl>(io, std::move(settings), std::move(hardware), fleet, store,
                                   std::move(past), outcomes, codecs, compile)) {}
Service::~Service() = default;

std::string Service::next_request_id() {
  return impl_->ids.next();
}

std::vector<http::Field> Service::fields_for_origin(std::string_view origin) const {
  return impl_->state->cross_origin.answer_fields(origin);
}

std::expected<http::Entry, http::Response> Service::check_head(const http::Request& head,
                                                               const http::Peer& peer) {
  auto entry = std::make_shared<Impl::Entry>();
  entry->state = impl_->state;
  entry->match = find_route(impl_->codecs, head);
  const auto app = admit(*impl_->state, entry->match, head, peer);
  // A preflight: host and path have been judged, and no codec takes its method.
  if (!app && app.error().code == ErrorCode::method_not_allowed &&
      impl_->state->cross_origin.is_preflight(head))
    return std::unexpected(impl_->let_ask(head, entry->match));
  if (!app) return std::unexpected(impl_->refused(app.error(), entry->match));
  entry->app = *app;
  // The operator is no app, and no stranger either.
  http::Entry let_in{entry, {}};
  if (entry->app != nullptr)
    let_in.client = entry->app->id;
  else if (entry->match.route->access == Access::viewer ||
           entry->match.route->access == Access::operator_only)
    let_in.client = kOperator;
  if (!takes_body(*entry->match.route)) {
    if (!head.chunked && head.content_length.value_or(0) <= kUnusedBody) return let_in;
    return std::unexpected(
        impl_->refused({ErrorCode::body_too_large, "This path takes no body.", {}, {}}, entry->match));
  }
  if (entry->app == nullptr) {  // the operator, whose body is parsed on the loop
    if (!head.chunked && head.content_length.value_or(0) <= kParsedOnLoop) return let_in;
    return std::unexpected(impl_->refused(
        {ErrorCode::body_too_large,
         "This path takes a body with a Content-Length of at most " + std::to_string(kParsedOnLoop) + ".",
         {},
         {}},
        entry->match));
  }
  const auto refusal = impl_->charge(*entry, head);
  if (!refusal) return let_in;
  return std::unexpected(impl_->refused(*refusal, entry->match, entry->app->id));
}

http::Response Service::refuse(const Error& error, const http::Request* head, const http::Peer&) {
  return impl_->refused(error, head ? find_route(impl_->codecs, *head) : RouteMatch());
}

void Service::handle(std::shared_ptr<http::Exchange> exchange) {
  const auto entry = std::static_pointer_cast<Impl::Entry>(exchange->take_entry());
  const bool charged = takes_body(*entry->match.route) && entry->app != nullptr;
  http::Request& request = exchange->request();
  const std::uint64_t bytes = request.body.size();
  if (charged && bytes < entry->charged) {
    impl_->dispatcher.give_back(*entry->app, 0, entry->charged - bytes);
    entry->held.shrink_to(bytes);
  }
  if (entry->state != impl_->state) {  // a reload between head and body
    auto app = admit(*impl_->state, entry->match, request, exchange->peer());
    // The charge and the held bytes are the app's that the key stood for.
    if (app && entry->app != nullptr && (*app == nullptr || (*app)->id != entry->app->id))
      app = fail(ErrorCode::invalid_api_key, "The API key has become another app's.");
    if (!app)
      return impl_->answer(*exchange, std::unexpected(app.error()), impl_->codec_of(entry->match), "none",
                           "refused");
    entry->state = impl_->state;
    entry->app = *app;
  }
  const Impl::Call call{exchange,
                        entry->state,
                        *entry->match.codec,
                        *entry->match.route,
                        entry->app,
                        bytes,
                        entry->standings,
                        std::make_shared<route::HeldBytes::Share>(std::move(entry->held))};
  if (call.route.drains && impl_->draining) {
    if (charged) impl_->dispatcher.give_back(*call.app, 1, bytes);
    return impl_->answer(call, fail(ErrorCode::shutting_down, "The daemon is shutting down."));
  }
  if (charged && bytes > kParsedOnLoop) return impl_->begin(std::make_shared<Impl::Parsing>(*impl_, call));
  auto operation = call.codec.parse(call.route, request);
  std::string().swap(request.body);  // the operation holds what it needs of it
  impl_->carry_out(call, std::move(operation));
}

bool Service::closing() const {
  return impl_->draining;
}

void Service::reload(std::shared_ptr<const settings::Settings> settings) {
  impl_->state = std::make_shared<const InForce>(std::move(settings));
  impl_->dispatcher.set_limits({impl_->state->settings->config.max_queue});
  impl_->metrics.reload_succeeded(true);
}

void Service::start_draining() {
  impl_->draining = true;
  for (const auto& call : std::exchange(impl_->engine_calls, {}))
    impl_->answer(*call, fail(ErrorCode::shutting_down, "The daemon is shutting down."));
}

void Service::abort_all(const Error& error) {
  const auto off_loop = impl_->off_loop;  // each one leaves its set as it ends
  for (const auto& one : off_loop) impl_->end(*one, error);
  const auto active = impl_->active;
  for (const auto& inference : active) inference->abort(error);
}

std::size_t Service::in_flight() const noexcept {
  return impl_->active.size() + impl_->off_loop.size();
}
std::size_t Service::off_loop() const noexcept {
  return impl_->off_loop.size();
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
void Service::count_connections(std::function<metrics::Metrics::ConnectionGauges()> count) {
  impl_->count_connections = std::move(count);
}

}  // namespace flyball::api
