#include "config/app_models.hpp"

#include <algorithm>

namespace flyball::config {

bool is_called(const ModelEntry& model, std::string_view name) {
  return model.id == name || std::ranges::find(model.aliases, name) != model.aliases.end();
}

bool may_use(const AppManifest& app, const ModelEntry& model) {
  return app.models.empty() ||
         std::ranges::any_of(app.models, [&](const std::string& name) { return is_called(model, name); });
}

}  // namespace flyball::config
