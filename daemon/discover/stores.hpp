// The stores of other tools on this machine, and what lies in them. Nothing in them is changed, and no model
// file is opened.
#pragma once

#include <filesystem>

#include "daemon/discover/found.hpp"
#include "daemon/discover/walk.hpp"

namespace flyball::discover {

struct StorePlace {
  StoreKind kind = StoreKind::folder;
  std::filesystem::path root;
  bool operator==(const StorePlace&) const = default;
};

// The store that a named folder is, by its layout.
StorePlace place_of(const std::filesystem::path& folder);

// Nothing where `place` is absent.
StoreContents look_through(const StorePlace& place, const WalkLimits& limits = {});

}  // namespace flyball::discover
