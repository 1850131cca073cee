// The stores of other tools on this machine, and what lies in them. Nothing in them is changed, and no model
// file is opened.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "daemon/discover/found.hpp"
#include "daemon/discover/walk.hpp"

namespace flyball::discover {

struct StorePlace {
  StoreKind kind = StoreKind::folder;
  std::filesystem::path root;
  bool operator==(const StorePlace&) const = default;
};

// The places where the stores of these homes and of the environment lie, whether anything is there or not:
// OLLAMA_MODELS, HF_HUB_CACHE, HF_HOME and LLAMA_CACHE count as their tools read them.
std::vector<StorePlace> known_places(std::span<const std::filesystem::path> homes);
// Of the user of this process, of the one who called sudo, and of Ollama's service.
std::vector<std::filesystem::path> homes();

// Nothing where `place` is absent.
StoreContents look_through(const StorePlace& place, const WalkLimits& limits = {});

}  // namespace flyball::discover
