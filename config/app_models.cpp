#include "config/app_models.hpp"

#include <algorithm>

namespace flyball::config {

bool is_called(const ModelEntry& model, std::string_view name) {
  return model.id == name || std::ranges::find(model.aliases, name) != model.aliases.end();
}

std::string_view without_default_tag(std::span<const ModelEntry> models, std::string_view name) {
  if (name.size() == kDefaultTag.size() || !name.ends_with(kDefaultTag)) return name;
  if (std::ranges::any_of(models, [&](const ModelEntry& model) { return is_called(model, name); }))
    return name;
  return name.substr(0, name.size() - kDefaultTag.size());
}

bool may_use(const AppManifest& app, const ModelEntry& model) {
  return app.models.empty() ||
         std::ranges::any_of(app.models, [&](const std::string& name) { return is_called(model, name); });
}

}  // namespace flyball::config
