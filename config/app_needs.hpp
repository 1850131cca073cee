// An app's manifest beside the capability table: the features that it declares and nothing here serves.
#pragma once

#include <string>
#include <vector>

#include "config/app_manifest.hpp"
#include "config/capabilities.hpp"

namespace flyball::config {

struct Unserved {
  std::string declared;  // "workload.class: embedding"
  std::string where;     // "indexer.yaml:4:10"; "": not of a file
  Feature feature;
};
// In the table's order.
std::vector<Unserved> unserved(const AppManifest& app);

}  // namespace flyball::config
