// The app on whose behalf an engine is loaded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace flyball::fleet {

struct Asker {
  std::string app = {};
  bool may_evict = true;       // other models' engines end for it
  std::uint64_t resident = 0;  // bytes that engines loaded for this app may hold together; 0: no limit
  bool background = false;     // no request of the app waits for the load: it gives way to all that do
  bool operator==(const Asker&) const = default;
};

// Adds one that waits for the same load, in the order they came. False: it is among them already. The first
// request replaces the background askers: the load is on its app's behalf from then on.
inline bool join(std::vector<Asker>& askers, const Asker& one) {
  if (std::ranges::find(askers, one) != askers.end()) return false;
  if (!one.background) std::erase_if(askers, [](const Asker& asker) { return asker.background; });
  askers.push_back(one);
  return true;
}

}  // namespace flyball::fleet
