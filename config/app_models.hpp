// The models of config.yaml by the names that clients write, and those that an app's manifest opens to it.
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
struct NamedModel {
  const ModelEntry* entry = nullptr;  // nullptr: there is none
  // The client's text, without the default tag unless a model is called by the whole; a view of that text.
  std::string_view name = {};
};
// The model that a client means, by id or alias, either with the default tag or without.
NamedModel named_model(std::span<const ModelEntry> models, std::string_view name);
// A manifest names models by either, or none for all.
bool may_use(const AppManifest& app, const ModelEntry& model);
// The model of the app's requests that name none: default_model or, where that is not open to the app, the
// only one that is. nullptr: none or several are open, none of them the default.
const ModelEntry* unnamed_model(const Config& config, const AppManifest& app);
// The model that keeps the prefix. nullptr: there is none that is open to the app.
const ModelEntry* kept_model(const Config& config, const AppManifest& app, const KeptPrefix& kept);

}  // namespace flyball::config
