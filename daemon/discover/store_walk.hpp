// A walk through a store, of which closed folders and a limit that ended it become obstacles.
#pragma once

#include "daemon/discover/found.hpp"
#include "daemon/discover/walk.hpp"

namespace flyball::discover {

// walk() of `folder`, which lies in out.root.
void walk_store(StoreContents& out, const std::filesystem::path& folder, const WalkLimits& limits,
                const std::function<bool(std::string_view name)>& wanted,
                const std::function<void(const std::filesystem::path& folder,
                                         const std::vector<std::string>& names)>& on_folder);

}  // namespace flyball::discover
