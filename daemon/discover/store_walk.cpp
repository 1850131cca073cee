#include "daemon/discover/store_walk.hpp"

#include <cerrno>
#include <cstring>

#include "daemon/discover/reach.hpp"

namespace flyball::discover {

Obstacle closed_obstacle(const std::filesystem::path& path, const std::string& name) {
  const std::filesystem::path closed = first_closed(path);
  return {Obstacle::Kind::closed, closed.empty() ? path : closed, name, "may not be looked into by this user",
          ""};
}

void walk_store(
    StoreContents& out, const std::filesystem::path& folder, const WalkLimits& limits,
    const std::function<bool(std::string_view)>& wanted,
    const std::function<void(const std::filesystem::path&, const std::vector<std::string>&)>& on_folder) {
  const WalkEnd end = walk(folder, limits, wanted, on_folder);
  for (const WalkEnd::Closed& closed : end.closed) {
    if (closed.error == EACCES)
      out.obstacles.push_back(closed_obstacle(closed.folder, ""));
    else
      out.obstacles.push_back({Obstacle::Kind::closed, closed.folder, "",
                               std::string("cannot be read: ") + std::strerror(closed.error), ""});
  }
  if (!end.cut.empty())
    out.obstacles.push_back(
        {Obstacle::Kind::cut, folder, "", "has " + end.cut + ": the rest was not looked at", ""});
}

}  // namespace flyball::discover
