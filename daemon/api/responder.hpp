// The responses to requests, in the words of their codec. Inference writes the others: an engine's answer,
// and its refusal by the dispatcher or for want of held bytes. Each response is counted. Each has a line in
// the log, but for preflights, `observe` where it succeeds, and floods of refusals, which share one
// (RequestLog).
#pragma once

#include <string>
#include <string_view>

#include "config/error.hpp"
#include "daemon/api/call.hpp"
#include "daemon/api/codec.hpp"
#include "daemon/api/request_ids.hpp"
#include "daemon/api/service_state.hpp"
#include "daemon/http/connection.hpp"
#include "daemon/http/message.hpp"
#include "daemon/route/limits.hpp"

namespace flyball::api {

class Responder {
 public:
  Responder(ServiceState& service, Codecs codecs) : service_(service), codecs_(codecs) {}

  std::string next_id() { return ids_.next(); }
  // The codec of the path or, where none has it, the one whose clients ask for such paths.
  const Codec& codec_of(const RouteMatch& match) const;

  // The answer to a request that was not let in: its head may be all there is of it, or less. `app`: "" where
  // it is not known.
  http::Response refused(const Error& error, const RouteMatch& match, std::string_view app = {});
  http::Response refused(const route::Refusal& refusal, const RouteMatch& match, const std::string& app);
  // Answers a preflight and writes no log line: browsers send a preflight before each path that a page asks.
  http::Response let_ask(const http::Request& preflight, const RouteMatch& match);
  void answer(const Call& call, Result<http::Response> result);
  void answer(http::Exchange& exchange, Result<http::Response> result, const Codec& codec,
              std::string_view app, std::string_view operation, const route::Standings& standings = {});

 private:
  ServiceState& service_;
  const Codecs codecs_;
  RequestIds ids_;
};

}  // namespace flyball::api
