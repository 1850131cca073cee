#include "daemon/fleet/victim.hpp"

namespace flyball::fleet {

std::optional<std::size_t> choose_victim(std::span<const Idle> idle, Memory memory, TimePoint before) {
  std::optional<std::size_t> chosen;
  for (std::size_t i = 0; i < idle.size(); ++i) {
    if (idle[i].memory != memory || idle[i].preloaded || idle[i].since > before) continue;
    if (!chosen || idle[i].since < idle[*chosen].since) chosen = i;
  }
  return chosen;
}

}  // namespace flyball::fleet
