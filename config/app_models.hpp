// Which models of config.yaml an app's manifest opens to it.
#pragma once

#include <string_view>

#include "config/app_manifest.hpp"
#include "config/config.hpp"

namespace flyball::config {

// By its id or an alias.
bool is_called(const ModelEntry& model, std::string_view name);
// A manifest names models by either, or none for all.
bool may_use(const AppManifest& app, const ModelEntry& model);

}  // namespace flyball::config
