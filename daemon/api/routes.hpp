// Every path there is, and who may use it. Routes deny by default: what is not in this list is 404, and a
// test shows that each of them refuses strangers unless it says `open`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace flyball::api {

enum class Access : std::uint8_t {
  open,          // anybody the Host check lets through
  local_or_key,  // loopback and unix sockets, or any app's key
  app,           // a known app: key, unix uid, or loopback where the configuration allows it
};

enum class RouteId : std::uint8_t {
  healthz,
  readyz,
  metrics,
  models,
  model,
  chat_completions,
  completions,
  explain,
  receipt,
};

struct Route {
  RouteId id;
  std::string_view method, path;  // a path that ends in '/' takes one more segment: an id
  Access access;
};
std::span<const Route> routes() noexcept;

struct RouteMatch {
  const Route* route = nullptr;
  std::string allow;  // methods of this path for the Allow field; "": no such path
};
// GET routes take HEAD too.
RouteMatch find_route(std::string_view method, std::string_view path);

bool is_json(std::string_view content_type) noexcept;           // application/json, parameters aside
std::string_view last_segment(std::string_view path) noexcept;  // the id of such a path

}  // namespace flyball::api
