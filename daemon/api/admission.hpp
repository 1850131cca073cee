// Who may do what: host, route, credentials and media type, in this order, and the only place that decides any
// of them.
#pragma once

#include <memory>
#include <string>

#include "daemon/api/gateway.hpp"
#include "daemon/api/routes.hpp"
#include "daemon/apps/registry.hpp"
#include "daemon/http/connection.hpp"
#include "daemon/http/host_policy.hpp"

namespace flyball::api {

// Everything a reload replaces; a request keeps the one it began with.
struct InForce {
  explicit InForce(std::shared_ptr<const Settings> from)
      : settings(std::move(from)), apps(settings->apps, settings->config), hosts(settings->config) {}
  std::shared_ptr<const Settings> settings;
  apps::Registry apps;
  http::HostPolicy hosts;
};

struct Admission {
  RouteId route;
  const config::AppManifest* app = nullptr;  // null on open routes; lives as long as `state`
};
// allow: the methods that the path takes, "" where there is no such path.
Result<Admission> admit(const InForce& state, const http::Request& request, const http::Peer& peer,
                        std::string& allow);

}  // namespace flyball::api
