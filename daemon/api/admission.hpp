// Admits or refuses a request by its host, route, credentials, what the route asks for and media type, in
// this order. No other place decides any of them.
#pragma once

#include <memory>

#include "daemon/api/codec.hpp"
#include "daemon/api/gateway.hpp"
#include "daemon/apps/registry.hpp"
#include "daemon/http/connection.hpp"
#include "daemon/http/cross_origin.hpp"
#include "daemon/http/host_policy.hpp"

namespace flyball::api {

// Everything a reload replaces; a request keeps the one it began with.
struct InForce {
  explicit InForce(std::shared_ptr<const settings::Settings> from)
      : settings(std::move(from)),
        apps(settings->apps, settings->config),
        hosts(settings->config),
        cross_origin(settings->config) {}
  std::shared_ptr<const settings::Settings> settings;
  apps::Registry apps;
  http::HostPolicy hosts;
  http::CrossOrigin cross_origin;
};

// The app that asks; nullptr on open routes, and where the operator asks for figures. It lives as long as
// `state`. Looks at the request's head alone.
// `match`: what find_route said of it.
Result<const config::AppManifest*> admit(const InForce& state, const RouteMatch& match,
                                         const http::Request& request, const http::Peer& peer);
// Whether the operator asks: by key, or from this machine where the configuration says so and no web page
// asks.
bool is_operator(const InForce& state, const Codec& codec, const http::Request& request,
                 const http::Peer& peer);

}  // namespace flyball::api
