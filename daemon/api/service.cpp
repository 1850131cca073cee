#include "daemon/api/service.hpp"

#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "daemon/api/admission.hpp"
#include "daemon/api/app_thread.hpp"
#include "daemon/api/call.hpp"
#include "daemon/api/exposition.hpp"
#include "daemon/api/framing.hpp"
#include "daemon/api/generation.hpp"
#include "daemon/api/kept_prompt.hpp"
#include "daemon/api/model_operations.hpp"
#include "daemon/api/off_loop.hpp"
#include "daemon/api/readiness.hpp"
#include "daemon/api/receipt_operations.hpp"
#include "daemon/api/responder.hpp"
#include "daemon/api/service_state.hpp"
#include "daemon/api/views.hpp"
#include "daemon/http/spare_body.hpp"
#include "daemon/route/held_bytes.hpp"

namespace flyball::api {
namespace {

// Takes turns beside the apps at the connections; no app has this id.
constexpr std::string_view kOperator = "<operator>";

// Most bytes of a body on a path that takes none: the connection reads it to its end, and no app is charged
// for it.
constexpr std::uint64_t kUnusedBody = 1024;

bool takes_body(const Route& route) noexcept {
  return route.body != BodyType::none;
}

}  // namespace

struct Service::Impl {
  Impl(boost::asio::io_context& io, std::shared_ptr<const settings::Settings> settings,
       policy::Facts hardware, fleet::Fleet& fleet, store::Writer* store, usage::Past past,
       measure::Outcomes* outcomes, Codecs known, ConstraintVerdicts::Compile compile)
      : codecs(known),
        state(io, std::move(settings), std::move(hardware), fleet, store, std::move(past), outcomes),
        responder(state, codecs),
        off_loop(responder),
        parsing_thread(io),
        generation(state, responder, off_loop, parsing_thread, compile),
        models(state, responder),
        receipts(state, responder) {
    state.dispatcher.set_limits({state.in_force->settings->config.max_queue});
    keep();
  }

  // Nothing is done for settings whose manifests were not read again.
  void keep() {
    const settings::Settings& settings = *state.in_force->settings;
    if (settings.kept == nullptr && kept == nullptr) return;
    if (std::exchange(kept, settings.kept) == settings.kept) return;
    state.dispatcher.keep(kept_wishes(settings));
  }

  // A request that its head let in, while its body is received.
  struct Entry {
    std::shared_ptr<const InForce> state;
    RouteMatch match;
    const config::AppManifest* app;  // nullptr on open routes
    std::uint64_t charged = 0;       // bytes; the most that the body may have
    route::Standings standings;
    route::HeldBytes::Share held;  // of the app's bytes, for the body
  };
  class Parsing;

  std::optional<route::Refusal> charge(Entry& entry, const http::Request& head);
  void carry_out(const Call& call, Result<Operation> operation);

  // Each Operation, and its room.
  void run(const Call& call, Generate request) { generation.run(call, std::move(request)); }
  void run(const Call& call, ListModels operation) { models.run(call, operation); }
  void run(const Call& call, ShowModel operation) { models.run(call, std::move(operation)); }
  void run(const Call& call, ListEngines operation) { models.run(call, operation); }
  void run(const Call& call, ListPrefixes) {
    const std::string_view app = call.app == nullptr ? std::string_view() : call.app->id;
    responder.answer(call, prefixes_view(state.dispatcher.kept().records(app), call.app == nullptr));
  }
  void run(const Call& call, LoadModel operation) { models.run(call, std::move(operation)); }
  void run(const Call& call, UnloadModel operation) { models.run(call, std::move(operation)); }
  void run(const Call& call, Explain question) { receipts.run(call, std::move(question)); }
  void run(const Call& call, FindReceipt operation) { receipts.run(call, std::move(operation)); }
  void run(const Call& call, Tell operation) { responder.answer(call, std::move(operation.answer)); }
  void run(const Call& call, TellHealth) { responder.answer(call, json_response("{\"status\":\"ok\"}")); }
  void run(const Call& call, TellReadiness) {
    responder.answer(call, readiness_view(state.models_seen(*call.state), state.draining, is_operator(call)));
  }
  void run(const Call& call, TellMetrics) { responder.answer(call, exposition(state, call.app)); }

  const Codecs codecs;
  ServiceState state;
  decltype(settings::Settings::kept) kept;  // the prompts that the dispatcher keeps
  http::SpareBody spare_body;
  Responder responder;
  OffLoopRequests off_loop;
  // The threads stand behind `off_loop`, whose requests they work on. There are two, so that no constraint
  // delays another app's large body.
  AppThread parsing_thread;
  // Has the compiling thread. It dies while the parsing thread may still run a Suiting, whose work() touches
  // nothing of it.
  Generation generation;
  ModelOperations models;
  ReceiptOperations receipts;
};

// A large body is parsed, and the print of its prompt taken.
class Service::Impl::Parsing final : public OffLoop {
 public:
  Parsing(Impl& service, Call request)
      : OffLoop(service.off_loop, service.parsing_thread, std::move(request)),
        service_(service),
        predictor_(service.state.dispatcher.predictor()) {}

  void work() override {
    http::Request& request = call.exchange->request();
    try {
      operation_ = call.codec.parse(call.route, request);
      auto* const asked = *operation_ ? std::get_if<Generate>(&**operation_) : nullptr;
      if (asked != nullptr) asked->prints = predictor_.prints_of(asked->prompts, call.app->id);
    } catch (const std::bad_alloc&) {
      operation_ = fail(ErrorCode::insufficient_memory, "There is no memory to parse the body in.");
    }
    // The operation holds what it needs of it.
    if (!http::SpareBody::keeps(request.body)) std::string().swap(request.body);
  }

 private:
  void go_on() override {
    service_.spare_body.keep(std::exchange(call.exchange->request().body, {}));
    service_.carry_out(call, std::move(*operation_));
  }

  Impl& service_;
  const predict::Predictor& predictor_;
  std::optional<Result<Operation>> operation_;
};

// Charges the app with the request, and holds room for its body until that has been parsed.
std::optional<route::Refusal> Service::Impl::charge(Entry& entry, const http::Request& head) {
  const config::AppManifest& app = *entry.app;
  const std::uint64_t limit = app.limits.held_bytes;
  const std::uint64_t most =
      head.chunked ? entry.state->settings->config.http.body_bytes : head.content_length.value_or(0);
  route::HeldBytes::Share share = state.held.share_of(app.id);
  route::Refusal refusal;
  if (most > limit) {
    refusal.error = {ErrorCode::body_too_large,
                     "The body has " + std::to_string(most) + " bytes; the daemon holds at most " +
                         std::to_string(limit) + " for the app (limits.held_bytes).",
                     {},
                     {}};
  } else if (!share.grow(most, limit)) {
    refusal.error = {ErrorCode::rate_limited,
                     "The daemon holds " + std::to_string(state.held.held(app.id)) + " of at most " +
                         std::to_string(limit) +
                         " bytes for the app (limits.held_bytes), and this body has " + std::to_string(most) +
                         ".",
                     {},
                     {}};
  } else if (auto charged = state.dispatcher.charge(app, most)) {
    entry.charged = most;
    entry.standings = *charged;
    entry.held = std::move(share);
    return std::nullopt;
  } else {
    refusal = std::move(charged.error());
  }
  refusal.standings = state.dispatcher.standings_of(app);
  if (head.chunked) refusal.error.message += " A body without Content-Length counts as http.body_bytes.";
  return refusal;
}

void Service::Impl::carry_out(const Call& call, Result<Operation> operation) {
  if (!operation) return responder.answer(call, pass(operation));
  std::visit([&](auto& one) { run(call, std::move(one)); }, *operation);
}

Service::Service(boost::asio::io_context& io, std::shared_ptr<const settings::Settings> settings,
                 policy::Facts hardware, fleet::Fleet& fleet, store::Writer* store, usage::Past past,
                 measure::Outcomes* outcomes, Codecs codecs, ConstraintVerdicts::Compile compile)
    : impl_(std::make_unique<Impl>(io, std::move(settings), std::move(hardware), fleet, store,
                                   std::move(past), outcomes, codecs, compile)) {}
Service::~Service() = default;

std::string Service::next_request_id() {
  return impl_->responder.next_id();
}

std::vector<http::Field> Service::fields_for_origin(std::string_view origin) const {
  return impl_->state.in_force->cross_origin.answer_fields(origin);
}

std::expected<http::Entry, http::Response> Service::check_head(const http::Request& head,
                                                               const http::Peer& peer) {
  auto entry = std::make_shared<Impl::Entry>();
  entry->state = impl_->state.in_force;
  entry->match = find_route(impl_->codecs, head);
  const auto app = admit(*impl_->state.in_force, entry->match, head, peer);
  // A preflight: host and path have been judged, and no codec takes its method.
  if (!app && app.error().code == ErrorCode::method_not_allowed &&
      impl_->state.in_force->cross_origin.is_preflight(head))
    return std::unexpected(impl_->responder.let_ask(head, entry->match));
  if (!app) return std::unexpected(impl_->responder.refused(app.error(), entry->match));
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
    return std::unexpected(impl_->responder.refused(
        {ErrorCode::body_too_large, "This path takes no body.", {}, {}}, entry->match));
  }
  if (entry->app == nullptr) {  // the operator, whose body is parsed on the loop
    if (!head.chunked && head.content_length.value_or(0) <= kParsedOnLoop) return let_in;
    return std::unexpected(impl_->responder.refused(
        {ErrorCode::body_too_large,
         "This path takes a body with a Content-Length of at most " + std::to_string(kParsedOnLoop) + ".",
         {},
         {}},
        entry->match));
  }
  const auto refusal = impl_->charge(*entry, head);
  if (!refusal) {
    let_in.room = impl_->spare_body.take(head.content_length.value_or(0));
    return let_in;
  }
  return std::unexpected(impl_->responder.refused(*refusal, entry->match, entry->app->id));
}

http::Response Service::refuse(const Error& error, const http::Request* head, const http::Peer&) {
  return impl_->responder.refused(error, head ? find_route(impl_->codecs, *head) : RouteMatch());
}

void Service::handle(std::shared_ptr<http::Exchange> exchange) {
  const auto entry = std::static_pointer_cast<Impl::Entry>(exchange->take_entry());
  const bool charged = takes_body(*entry->match.route) && entry->app != nullptr;
  http::Request& request = exchange->request();
  const std::uint64_t bytes = request.body.size();
  if (charged && bytes < entry->charged) {
    impl_->state.dispatcher.give_back(*entry->app, 0, entry->charged - bytes);
    entry->held.shrink_to(bytes);
  }
  if (entry->state != impl_->state.in_force) {  // a reload between head and body
    auto app = admit(*impl_->state.in_force, entry->match, request, exchange->peer());
    // The charge and the held bytes are the app's that the key stood for.
    if (app && entry->app != nullptr && (*app == nullptr || (*app)->id != entry->app->id))
      app = fail(ErrorCode::invalid_api_key, "The API key has become another app's.");
    if (!app)
      return impl_->responder.answer(*exchange, std::unexpected(app.error()),
                                     impl_->responder.codec_of(entry->match), "none", "refused");
    entry->state = impl_->state.in_force;
    entry->app = *app;
  }
  const Call call{exchange,
                  entry->state,
                  *entry->match.codec,
                  *entry->match.route,
                  entry->app,
                  bytes,
                  entry->standings,
                  std::make_shared<route::HeldBytes::Share>(std::move(entry->held))};
  if (call.route.drains && impl_->state.draining) {
    if (charged) impl_->state.dispatcher.give_back(*call.app, 1, bytes);
    return impl_->responder.answer(call, fail(ErrorCode::shutting_down, "The daemon is shutting down."));
  }
  if (charged && bytes > kParsedOnLoop)
    return impl_->off_loop.begin(std::make_shared<Impl::Parsing>(*impl_, call));
  auto operation = call.codec.parse(call.route, request);
  std::string().swap(request.body);  // the operation holds what it needs of it
  impl_->carry_out(call, std::move(operation));
}

bool Service::closing() const {
  return impl_->state.draining;
}

void Service::reload(std::shared_ptr<const settings::Settings> settings) {
  impl_->state.in_force = std::make_shared<const InForce>(std::move(settings));
  impl_->state.dispatcher.set_limits({impl_->state.in_force->settings->config.max_queue});
  impl_->keep();
  impl_->state.metrics.reload_succeeded(true);
}

void Service::start_draining() {
  impl_->state.draining = true;
  impl_->models.start_draining();
}

void Service::abort_all(const Error& error) {
  impl_->off_loop.end_all(error);
  impl_->generation.abort_all(error);
}

std::size_t Service::in_flight() const noexcept {
  return impl_->generation.in_flight() + impl_->off_loop.size();
}
std::size_t Service::off_loop() const noexcept {
  return impl_->off_loop.size();
}
bool Service::computes_prefixes() const noexcept {
  return impl_->state.dispatcher.kept().computes();
}
std::uint64_t Service::finished() const noexcept {
  return impl_->state.finished;
}
std::uint64_t Service::inferences_finished() const noexcept {
  return impl_->generation.finished();
}
metrics::Metrics& Service::metrics() noexcept {
  return impl_->state.metrics;
}
void Service::count_connections(std::function<metrics::Metrics::ConnectionGauges()> count) {
  impl_->state.count_connections = std::move(count);
}

}  // namespace flyball::api
