// For whom an engine is loaded, where it has to be.
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
  bool operator==(const Asker&) const = default;
};

// Those who wait for the same load, in the order they came. False: that one is among them already.
inline bool join(std::vector<Asker>& askers, const Asker& one) {
  if (std::ranges::find(askers, one) != askers.end()) return false;
  askers.push_back(one);
  return true;
}

}  // namespace flyball::fleet
