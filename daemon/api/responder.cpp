#include "daemon/api/responder.hpp"

#include <optional>
#include <utility>

#include "daemon/api/limit_fields.hpp"
#include "daemon/http/cross_origin.hpp"

namespace flyball::api {

const Codec& Responder::codec_of(const RouteMatch& match) const {
  if (match.codec != nullptr) return *match.codec;
  return match.nearest != nullptr ? *match.nearest : *codecs_.front();
}

http::Response Responder::refused(const Error& error, const RouteMatch& match, std::string_view app) {
  const Codec& codec = codec_of(match);
  const std::string id = ids_.next();
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
  service_.metrics.rejected(code);
  service_.metrics.request_finished(labels, response.status, 0);
  ++service_.finished;
  service_.log.log_refusal(id, app.empty() ? "none" : app, "refused", response.status, error.code, 0);
  return response;
}

http::Response Responder::refused(const route::Refusal& refusal, const RouteMatch& match,
                                  const std::string& app) {
  ++service_.journal.change(app, ServiceState::today()).refused;
  http::Response response = refused(refusal.error, match, app);
  append_standings(refusal.standings, response.fields);
  if (refusal.retry_after_ms >= 0) set_retry_after(refusal.retry_after_ms, response.fields);
  return response;
}

http::Response Responder::let_ask(const http::Request& preflight, const RouteMatch& match) {
  http::Response response = http::preflight_answer(preflight, match.allow);
  response.fields.push_back({"x-request-id", ids_.next()});
  metrics::RequestLabels labels;
  labels.operation = "preflight";
  service_.metrics.request_finished(labels, response.status, 0);
  ++service_.finished;
  return response;
}

void Responder::answer(const Call& call, Result<http::Response> result) {
  answer(*call.exchange, std::move(result), call.codec, call.app ? std::string_view(call.app->id) : "none",
         call.route.operation, call.standings);
}

void Responder::answer(http::Exchange& exchange, Result<http::Response> result, const Codec& codec,
                       std::string_view app, std::string_view operation, const route::Standings& standings) {
  std::optional<ErrorCode> refused;
  if (!result) {
    refused = result.error().code;
    if (*refused != ErrorCode::cancelled) service_.metrics.rejected(to_string(*refused));
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
  service_.metrics.request_finished(labels, status, ms / 1e3);
  ++service_.finished;
  if (refused)
    service_.log.log_refusal(exchange.id(), app, operation, status, *refused, ms);
  else if (operation != kObserve)
    service_.log.log(exchange.id(), app, "none", "none", operation, status, "ok", ms, {});
}

}  // namespace flyball::api
