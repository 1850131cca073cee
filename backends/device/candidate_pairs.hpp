// Candidates as graph::Ops::top_k leaves them. Shared by the devices that have it; in a header because
// devices stand below backends/engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/decode/candidates.hpp"
#include "backends/graph/ops.hpp"

namespace flyball::device {

// pairs: for each one asked a head and its k likeliest. `out` views them.
inline void read_candidates(std::span<const graph::TopK> asked, const decode::Likely* pairs,
                            std::vector<decode::Candidates>& out) {
  out.clear();
  for (const graph::TopK& t : asked) {
    const std::span likeliest(pairs + 1, t.k);
    // A device that names what is no token has gone wrong, too.
    const bool tokens = std::ranges::all_of(
        likeliest, [&](const decode::Likely& l) { return static_cast<std::uint32_t>(l.token) < t.of; });
    out.push_back({likeliest, pairs->value, pairs->token == 0 && tokens});
    pairs += 1 + t.k;
  }
}

}  // namespace flyball::device
