// What the governor's accounts say, of pools, engines and apps. It decides nothing.
#include <algorithm>

#include "daemon/fleet/governor.hpp"

namespace flyball::fleet {

std::uint64_t Governor::accounted(std::size_t pool) const {
  std::uint64_t sum = 0;
  for (const auto& [id, account] : accounts_)
    if (account.claim.pool == pool) sum += account.bytes;
  return sum;
}

Governor::Share Governor::share_of(const Asker& asker) const {
  if (asker.resident == 0) return {&asker, kUnknown, kUnknown};
  Share share{&asker, less(asker.resident, bytes_of(asker.app)), asker.resident};
  for (const auto& [id, account] : accounts_)
    if (account.app == asker.app && account.claim.pinned && account.state != State::ending)
      share.could_be_left = less(share.could_be_left, account.bytes);
  return share;
}

std::uint64_t Governor::bytes_of(const std::string& app) const {
  std::uint64_t sum = 0;
  for (const auto& [id, account] : accounts_)
    if (account.app == app) sum += account.bytes;
  return sum;
}

// That of the first who may have it now; else of the first who could have it; else the largest.
Governor::Share Governor::best_share(const Account& account) const {
  const std::uint64_t least = account.claim.need.least_bytes();
  const auto rank = [&](const Share& s) { return least <= s.left ? 2 : least <= s.could_be_left ? 1 : 0; };
  Share best;
  for (const Asker& asker : account.claim.askers) {
    const Share share = share_of(asker);
    const bool better =
        rank(share) > rank(best) || (rank(share) == 0 && share.could_be_left > best.could_be_left);
    if (best.asker == nullptr || better) best = share;
  }
  return best;
}

bool Governor::held(Id id) const {
  const auto at = accounts_.find(id);
  return at != accounts_.end() && at->second.held;
}

bool Governor::waits(Id id) const {
  return std::ranges::find(line_, id) != line_.end();
}

// What was granted and not taken yet is not there, whatever the system says: what loads, room for activations
// and KV that no prompt has needed so far, and pages of files, which the system could have back.
std::uint64_t Governor::free(std::size_t pool, std::uint64_t available) const {
  return left(pool, available, false);
}

std::uint64_t Governor::free_for_engines(std::size_t pool, std::uint64_t available) const {
  return left(pool, available, true);
}

std::uint64_t Governor::left(std::size_t pool, std::uint64_t available, bool spare_ones_end) const {
  std::uint64_t left = pools_[pool].capacity;
  for (const auto& [id, account] : accounts_) {
    if (account.claim.pool != pool) continue;
    const std::uint64_t touched =
        account.touched.value_or(account.state == State::loading ? 0 : account.bytes);
    if (account.claim.spare && spare_ones_end) {
      if (available != kUnknown) available += std::min(touched, kUnknown - 1 - available);
      continue;
    }
    left = less(left, account.bytes);
    if (available != kUnknown) available = less(available, less(account.bytes, touched));
  }
  return std::min(left, available);
}

std::uint64_t Governor::bytes(Id id) const {
  const auto at = accounts_.find(id);
  return at == accounts_.end() ? 0 : at->second.bytes;
}

std::uint64_t Governor::most_for_one(std::size_t pool) const {
  std::uint64_t kept = 0;
  for (const auto& [id, account] : accounts_)
    if (account.claim.pool == pool && account.claim.pinned) kept += account.bytes;
  return less(pools_[pool].capacity, kept);
}

std::vector<Governor::PoolState> Governor::pools() const {
  std::vector<PoolState> states;
  for (const MemoryPool& pool : pools_) states.push_back({pool.name, pool.capacity, 0, 0, 0});
  for (const auto& [id, account] : accounts_) {
    PoolState& state = states[account.claim.pool];
    state.accounted += account.bytes;
    if (!account.claim.spare) ++(account.state == State::asking ? state.waiting : state.engines);
  }
  return states;
}

}  // namespace flyball::fleet
