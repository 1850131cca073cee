// A walk through a store. Closed folders and a limit that ended it become obstacles.
#pragma once

#include "daemon/discover/found.hpp"
#include "daemon/discover/walk.hpp"

namespace flyball::discover {

// The folder on the way to `path` that this user may not look into.
Obstacle closed_obstacle(const std::filesystem::path& path, const std::string& name);

// walk() of `folder`, which lies in out.root.
void walk_store(StoreContents& out, const std::filesystem::path& folder, const WalkLimits& limits,
                const std::function<bool(std::string_view name)>& wanted,
                const std::function<void(const std::filesystem::path& folder,
                                         const std::vector<std::string>& names)>& on_folder);

}  // namespace flyball::discover
