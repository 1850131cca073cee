// Which models of config.yaml an app's manifest opens to it.
#pragma once

#include <span>
#include <string_view>

#include "config/app_manifest.hpp"
#include "config/config.hpp"

namespace flyball::config {

// The tag that Ollama and its clients add to names without one.
inline constexpr std::string_view kDefaultTag = ":latest";

// By its id or an alias.
bool is_called(const ModelEntry& model, std::string_view name);
// `name` without the default tag, unless one of `models` is called by the whole of it. A view of `name`.
std::string_view without_default_tag(std::span<const ModelEntry> models, std::string_view name);
// A manifest names models by either, or none for all.
bool may_use(const AppManifest& app, const ModelEntry& model);

}  // namespace flyball::config
