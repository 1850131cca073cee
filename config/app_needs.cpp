#include "config/app_needs.hpp"

#include <algorithm>

namespace flyball::config {

std::vector<Unserved> unserved(const AppManifest& app) {
  const Workload& work = app.workload;
  std::vector<Unserved> out;
  const auto needs = [&](bool declared, const char* key, std::string_view value, Feature feature) {
    if (!declared || capability(feature).served != Served::no) return;
    const auto at = app.places.find(key);
    out.push_back(
        {std::string(key) + ": " + std::string(value), at == app.places.end() ? "" : at->second, feature});
  };
  const auto has = [&](const char* modality) {
    return std::ranges::find(work.modalities, modality) != work.modalities.end();
  };
  needs(work.structured_output == true, "workload.structured_output", "true", Feature::schema);
  needs(has("image"), "workload.modalities", "image", Feature::vision);
  needs(has("audio"), "workload.modalities", "audio", Feature::audio);
  needs(work.kind == WorkloadClass::embedding, "workload.class", "embedding", Feature::embeddings);
  needs(work.draft_model == true, "workload.draft_model", "true", Feature::draft_model);
  needs(work.kind == WorkloadClass::fine_tuning, "workload.class", "fine_tuning", Feature::fine_tuning);
  return out;
}

}  // namespace flyball::config
