// One API, as the daemon sees it: a row of table/codecs.cpp, behind it a folder of its own. A request goes
// through it in two stages: its head by data alone (routes, keys), before the body is read; then head and
// body through parse(), a pure function that may run on any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/capabilities.hpp"
#include "config/error.hpp"
#include "daemon/api/operation.hpp"
#include "daemon/http/message.hpp"

namespace flyball::api {

enum class Access : std::uint8_t {
  open,           // anybody the Host check lets through; no key is looked at
  open_viewer,    // anybody without a key; a key that is sent must be known, and the operator sees more
  viewer,         // the operator, or an app, which sees its own alone
  operator_only,  // the operator
  app,            // a known app: key, unix uid, or loopback where the configuration allows it
};

enum class BodyType : std::uint8_t { none, json, multipart };

// Names of operations that the service itself looks for.
inline constexpr std::string_view kObserve = "observe";  // not logged: it comes every few seconds

struct Route {
  std::string_view method, path;
  Access access = Access::app;
  BodyType body = BodyType::none;
  std::string_view operation;  // what logs and metrics call it
  bool drains = false;         // refused while the daemon drains
  std::uint8_t id = 0;         // the codec's own
  // The path is known for this feature alone: it is refused where the capability table says no.
  std::optional<config::Feature> asks_for = {};
  // The route is that of requests with this header field, where several APIs have the path; "": of all.
  std::string_view header = {};

  // A path that ends in '/' takes an id behind it, which may hold slashes; but "/" is a path by itself.
  constexpr bool takes_id() const noexcept { return path.size() > 1 && path.ends_with('/'); }
};

// A path of an API for a feature that nothing serves: admit() refuses it at its head.
constexpr Route unserved_route(std::string_view method, std::string_view path, config::Feature feature,
                               std::uint8_t id) {
  return {method, path, Access::app, BodyType::none, "unserved", false, id, feature};
}

// The header field in which an API's clients send their key.
struct KeyPlace {
  std::string_view field;   // "Authorization", "x-api-key"
  std::string_view scheme;  // "Bearer"; "": the key alone
};

struct Codec {
  std::string_view name;
  std::span<const Route> routes;
  std::span<const KeyPlace> keys;
  // Body, path and query to one operation. Pure; errors name the field in the API's own terms.
  Result<Operation> (*parse)(const Route& route, const http::Request& request);
  // An error in the API's own shape: status, body and the fields that tell whether to try again.
  // `request_id`: the id of the answer's x-request-id.
  http::Response (*error)(const Error& error, std::string_view request_id);
  // The field in which the API's clients look for the request's id, beside x-request-id; "": there alone.
  std::string_view id_field = {};
  // Paths that begin so are of this API alone: an unknown one is refused in its shape. "": it has none.
  std::string_view paths = {};
};

using Codecs = std::span<const Codec* const>;

// "application/json", parameters aside.
bool has_type(std::string_view content_type, BodyType type) noexcept;
std::string_view to_string(BodyType type) noexcept;
// Clients that do not say the type of their JSON send this one: a form's (curl), plain text (fetch()), or
// none. Any web page may send these without asking first (Fetch standard, section 2.2.2).
bool is_type_unsaid(std::string_view content_type) noexcept;
// The id in the path of a request to such a route, percent-decoded (RFC 3986, section 2.1). invalid_value for
// a '%' without two hexadecimal digits.
Result<std::string> path_id(const Route& route, std::string_view path);

// Every route of the codecs. Routes deny by default: what no codec declares is 404, and a test shows that
// each of them refuses strangers unless it says `open`.
std::vector<Route> routes(Codecs codecs);

struct RouteMatch {
  const Codec* codec = nullptr;  // the first that has the path; nullptr: none has
  const Route* route = nullptr;  // nullptr: the path takes other methods
  std::string allow;             // methods of this path for the Allow field
  std::string there_is;          // where no codec has the path: the routes that there are, "GET /a, POST /b"
  const Codec* nearest = nullptr;  // and the codec whose clients ask for such paths; nullptr: none
};
// The route of a request by its head. GET routes take HEAD too. A path with slashes to spare is that of an
// app's or an open route where no route has it as it stands.
RouteMatch find_route(Codecs codecs, const http::Request& head);

}  // namespace flyball::api
