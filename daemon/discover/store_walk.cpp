#include "daemon/discover/store_walk.hpp"

#include <cerrno>
#include <cstring>

namespace flyball::discover {

void walk_store(
    StoreContents& out, const std::filesystem::path& folder, const WalkLimits& limits,
    const std::function<bool(std::string_view)>& wanted,
    const std::function<void(const std::filesystem::path&, const std::vector<std::string>&)>& on_folder) {
  const WalkEnd end = walk(folder, limits, wanted, on_folder);
  for (const WalkEnd::Closed& closed : end.closed)
    out.obstacles.push_back({Obstacle::Kind::closed, closed.folder, "",
                             closed.error == EACCES
                                 ? "may not be looked into by this user"
                                 : std::string("cannot be read: ") + std::strerror(closed.error),
                             ""});
  if (!end.cut.empty())
    out.obstacles.push_back(
        {Obstacle::Kind::cut, folder, "", "has " + end.cut + ": the rest was not looked at", ""});
}

}  // namespace flyball::discover
