#include "daemon/api/admission.hpp"

#include <algorithm>

#include "config/name_list.hpp"
#include "daemon/api/codec.hpp"
#include "daemon/api/features.hpp"
#include "daemon/http/message.hpp"

namespace flyball::api {
namespace {

apps::Credentials credentials(const Codec& codec, const http::Request& request, const http::Peer& peer) {
  apps::Credentials out;
  out.unix_uid = peer.unix_uid;
  out.loopback = peer.loopback;
  out.web_page = std::ranges::any_of(request.fields, [](const http::Field& field) {
    return http::equals_ignoring_case(field.name, "Origin");
  });
  for (const KeyPlace& place : codec.keys) {
    const std::string_view value = request.field(place.field);
    if (place.scheme.empty()) {
      // The first key that is sent counts; without any, the refusal names the first field.
      if (out.own.name.empty() || (out.own.value.empty() && !value.empty())) out.own = {place.field, value};
    } else {
      out.authorization = value;
    }
  }
  return out;
}

// Two keys are ambiguous, as two hosts are: a proxy before the daemon may have gone by the other
// one. RFC 6750, section 3.1, has 400 for a credential that is sent twice, and not the 401 of a wrong one.
Result<void> check_one_credential(const Codec& codec, const http::Request& request) {
  for (const KeyPlace& place : codec.keys) {
    const auto of_place = [&](const http::Field& field) {
      return http::equals_ignoring_case(field.name, place.field);
    };
    if (std::ranges::count_if(request.fields, of_place) > 1)
      return fail(ErrorCode::bad_framing, "There is more than one " + std::string(place.field) + " field.",
                  std::string(place.field));
  }
  return {};
}

Result<const config::AppManifest*> who_asks(const InForce& state, Access access,
                                            const apps::Credentials& credentials) {
  switch (access) {
    case Access::open:
      return nullptr;
    case Access::open_viewer:
      if (credentials.authorization.empty() && credentials.own.value.empty()) return nullptr;
      [[fallthrough]];
    case Access::viewer:
      return state.apps.identify_viewer(credentials);
    case Access::operator_only:
      if (auto viewer = state.apps.identify_viewer(credentials); !viewer || *viewer == nullptr) return viewer;
      return fail(
          ErrorCode::invalid_api_key,
          "This path is the operator's: send the operator's key (operator.key_sha256 in config.yaml), or "
          "none from a program of this machine, not from a web page, where operator.loopback allows it.");
    case Access::app:
      break;
  }
  return state.apps.identify(credentials);
}

// No browser sends such a request for a web page unasked: it has a key, whose field a page may add after a
// preflight alone, and no Origin.
bool no_page_sends(const apps::Credentials& sent) noexcept {
  return !sent.web_page && (!sent.authorization.empty() || !sent.own.value.empty());
}

Result<void> check_type(std::string_view type, BodyType body, bool may_be_unsaid) {
  if (has_type(type, body)) return {};
  const bool json_unsaid = body == BodyType::json && is_type_unsaid(type);
  if (json_unsaid && may_be_unsaid) return {};
  std::string message =
      type.empty() ? "There is no Content-Type" : "The Content-Type is " + config::quoted(type);
  message += "; it must be " + std::string(to_string(body)) + ".";
  if (json_unsaid)
    message +=
        " curl sends it with -H 'Content-Type: application/json'. A request that has an API key and is not a "
        "web page's needs none.";
  return fail(ErrorCode::unsupported_media_type, std::move(message));
}

}  // namespace

Result<const config::AppManifest*> admit(const InForce& state, const RouteMatch& match,
                                         const http::Request& request, const http::Peer& peer) {
  if (!peer.unix_uid && !state.hosts.allows(request.host))
    return fail(ErrorCode::host_not_allowed,
                "The request is for the host " + config::quoted(request.host) +
                    ", which is not served here (allowed_hosts in config.yaml).",
                "Host");
  if (match.codec == nullptr)
    return fail(ErrorCode::not_found, "There is nothing at this path. There is: " + match.there_is + ".");
  if (match.route == nullptr)
    return fail(ErrorCode::method_not_allowed,
                "This path does not take this method; it takes " + match.allow + ".");
  if (auto one = check_one_credential(*match.codec, request); !one) return pass(one);
  const Route& route = *match.route;
  const apps::Credentials sent = credentials(*match.codec, request, peer);
  auto app = who_asks(state, route.access, sent);
  if (!app) return pass(app);
  if (route.asks_for) {
    const config::Capability served = config::capability(*route.asks_for);
    if (served.served == config::Served::no) return std::unexpected(unserved(served, {}));
  }
  const std::string_view coding = request.field("Content-Encoding");
  if (!coding.empty() && !http::equals_ignoring_case(coding, "identity"))
    return fail(ErrorCode::unsupported_coding, "Content-Encoding is not accepted: send the body as it is.");
  if (auto type = check_type(request.field("Content-Type"), route.body, no_page_sends(sent)); !type)
    return pass(type);
  return app;
}

bool is_operator(const InForce& state, const Codec& codec, const http::Request& request,
                 const http::Peer& peer) {
  const auto viewer = state.apps.identify_viewer(credentials(codec, request, peer));
  return viewer && *viewer == nullptr;
}

}  // namespace flyball::api
