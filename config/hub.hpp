// The server that `flyball models pull` fetches from. The daemon never speaks to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/api_key.hpp"
#include "config/table.hpp"

namespace flyball::config {

struct Hub {
  // Base of the Hugging Face file API: "/api/models/NAME/tree/main" and "/NAME/resolve/main/FILE" follow.
  std::string url = "https://huggingface.co";
  std::optional<KeySource> token;  // sent to this server alone
};

const std::vector<Bound<Hub>>& hub_table();

}  // namespace flyball::config
