// config.yaml's `operator` table: who sees the figures of the whole daemon, and loads and unloads models.
#pragma once

#include <optional>
#include <vector>

#include "config/api_key.hpp"

namespace flyball::config {

struct OperatorAccess {
  std::vector<Sha256> keys;  // of each of the operator's keys
  std::optional<bool>
      loopback;  // whoever is on this machine and sends no key; absent: as loopback_without_key
};

const std::vector<Bound<OperatorAccess>>& operator_table();

}  // namespace flyball::config
