// The kept prefixes of manifests as engines are asked for them. Pure.
#pragma once

#include <vector>

#include "backends/backend.hpp"
#include "config/app_manifest.hpp"
#include "config/config.hpp"
#include "daemon/route/kept_prefixes.hpp"
#include "daemon/settings/settings.hpp"

namespace flyball::api {

// The prefix as the beginning of a prompt of the app, written as the codecs write one.
Prompt kept_prompt(const config::AppManifest& app, const config::KeptPrefix& kept);
// Sets settings.kept from the apps' texts, and lets go of these. It takes a while for megabytes of text: the
// thread that reads the settings does it, never the loop.
void read_kept_prompts(settings::Settings& settings);
// The kept prefixes of all apps, in the order of the manifests, by the prompts that were read. A prefix
// without a model is left out: cross_check() refuses it.
std::vector<route::KeptWish> kept_wishes(const settings::Settings& settings);

}  // namespace flyball::api
