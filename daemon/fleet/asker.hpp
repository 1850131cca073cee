// For whom an engine is loaded, where it has to be.
#pragma once

#include <cstdint>
#include <string>

namespace flyball::fleet {

struct Asker {
  std::string app = {};
  bool may_evict = true;       // other models' engines end for it
  std::uint64_t resident = 0;  // bytes that engines loaded for this app may hold together; 0: no limit
  bool operator==(const Asker&) const = default;
};

// Of two who wait for the same load: what either of them may, it may. It is loaded for the one that may have
// more.
inline Asker widest(const Asker& a, const Asker& b) {
  const bool second = a.resident != 0 && (b.resident == 0 || b.resident > a.resident);
  Asker out = second ? b : a;
  out.may_evict = a.may_evict || b.may_evict;
  return out;
}

}  // namespace flyball::fleet
