// One request that was let in, while its operation is carried out.
#pragma once

#include <cstdint>
#include <memory>

#include "config/app_manifest.hpp"
#include "config/error.hpp"
#include "daemon/api/admission.hpp"
#include "daemon/api/codec.hpp"
#include "daemon/api/operation.hpp"
#include "daemon/http/connection.hpp"
#include "daemon/route/held_bytes.hpp"
#include "daemon/route/limits.hpp"

namespace flyball::api {

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

// The operator asks, not an app. Apps with a key learn nothing of the operator's folders.
inline bool is_operator(const Call& call) {
  return is_operator(*call.state, call.codec, call.exchange->request(), call.exchange->peer());
}

// The refusal of the fields that the API does not know, unless the app's manifest accepts them.
inline Result<void> check_fields(const config::AppManifest& app, const UnknownFields& unknown) {
  if (app.accepts_unknown_fields || !unknown.refusal()) return {};
  return std::unexpected(*unknown.refusal());
}

}  // namespace flyball::api
