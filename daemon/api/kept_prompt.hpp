// The kept prefixes of manifests as engines are asked for them. Pure.
#pragma once

#include <vector>

#include "backends/backend.hpp"
#include "config/app_manifest.hpp"
#include "config/config.hpp"
#include "daemon/route/kept_prefixes.hpp"

namespace flyball::api {

// The prefix as the beginning of a prompt of the app, written as the codecs write one.
Prompt kept_prompt(const config::AppManifest& app, const config::KeptPrefix& kept);
// Those of all apps, in the order of the manifests. One without a model is left out: cross_check() refuses
// it.
std::vector<route::KeptWish> kept_wishes(const config::Config& config,
                                         const std::vector<config::AppManifest>& apps);

}  // namespace flyball::api
