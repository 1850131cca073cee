#include "config/app_models.hpp"

#include <algorithm>

namespace flyball::config {

bool is_called(const ModelEntry& model, std::string_view name) {
  return model.id == name || std::ranges::find(model.aliases, name) != model.aliases.end();
}

NamedModel named_model(std::span<const ModelEntry> models, std::string_view name) {
  const auto find = [&](std::string_view wanted) -> const ModelEntry* {
    const auto found =
        std::ranges::find_if(models, [&](const ModelEntry& model) { return is_called(model, wanted); });
    return found == models.end() ? nullptr : &*found;
  };
  if (const ModelEntry* const whole = find(name)) return {whole, name};
  if (name.size() == kDefaultTag.size() || !name.ends_with(kDefaultTag)) return {nullptr, name};
  name.remove_suffix(kDefaultTag.size());
  return {find(name), name};
}

bool may_use(const AppManifest& app, const ModelEntry& model) {
  return app.models.empty() ||
         std::ranges::any_of(app.models, [&](const std::string& name) { return is_called(model, name); });
}

const ModelEntry* unnamed_model(const Config& config, const AppManifest& app) {
  const ModelEntry* only = nullptr;
  std::size_t open = 0;
  for (const ModelEntry& model : config.models) {
    if (!may_use(app, model)) continue;
    if (is_called(model, config.default_model)) return &model;
    only = &model;
    ++open;
  }
  return open == 1 ? only : nullptr;
}

const ModelEntry* kept_model(const Config& config, const AppManifest& app, const KeptPrefix& kept) {
  if (kept.model.empty()) return unnamed_model(config, app);
  const ModelEntry* const named = named_model(config.models, kept.model).entry;
  return named != nullptr && may_use(app, *named) ? named : nullptr;
}

}  // namespace flyball::config
