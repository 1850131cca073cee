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

}  // namespace flyball::config
