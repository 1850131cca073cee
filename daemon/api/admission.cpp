#include "daemon/api/admission.hpp"

#include "config/name_list.hpp"
#include "daemon/http/message.hpp"

namespace flyball::api {

Result<Admission> admit(const InForce& state, const http::Request& request, const http::Peer& peer,
                        std::string& allow) {
  if (!state.hosts.allows(request.host))
    return fail(ErrorCode::host_not_allowed,
                "The Host field names " + config::quoted(request.host) +
                    ", which is not served here (allowed_hosts in config.yaml).",
                "Host");
  const RouteMatch match = find_route(request.method, request.path());
  allow = match.allow;
  if (!match.route && allow.empty())
    return fail(
        ErrorCode::not_found,
        "There is nothing at this path. The API is OpenAI's: GET /v1/models, POST /v1/chat/completions, "
        "POST /v1/completions.");
  if (!match.route)
    return fail(ErrorCode::method_not_allowed,
                "This path does not take this method; it takes " + allow + ".");
  const Route& route = *match.route;
  Admission out{route.id, nullptr};
  const bool local = peer.loopback || peer.unix_uid.has_value();
  if (route.access == Access::app || (route.access == Access::local_or_key && !local)) {
    auto app = state.apps.identify({request.field("Authorization"), peer.unix_uid, peer.loopback});
    if (!app) return std::unexpected(std::move(app.error()));
    out.app = *app;
  }
  const std::string_view coding = request.field("Content-Encoding");
  if (!coding.empty() && !http::equals_ignoring_case(coding, "identity"))
    return fail(ErrorCode::unsupported_coding, "Content-Encoding is not accepted: send the body as it is.");
  const std::string_view type = request.field("Content-Type");
  if (route.method == "POST" && !is_json(type))
    return fail(ErrorCode::unsupported_media_type,
                (type.empty() ? std::string("There is no Content-Type")
                              : "The Content-Type is " + config::quoted(type)) +
                    "; it must be application/json.");
  return out;
}

}  // namespace flyball::api
