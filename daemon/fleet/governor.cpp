#include "daemon/fleet/governor.hpp"

#include <algorithm>
#include <utility>

#include "config/units.hpp"

namespace flyball::fleet {

using std::chrono::milliseconds;

namespace {

constexpr const char* kUnloaded = "the operator unloads it";

std::string wait_text(milliseconds time) {
  return config::exact_time_text(std::chrono::microseconds(time).count());
}

}  // namespace

std::string memory_of(const MemoryPool& pool) {
  return pool.of_the_machine ? "this machine's memory" : "the memory of " + pool.name;
}

struct Governor::Round {
  explicit Round(const World& w, std::size_t pools) : world(w), promised(pools), closing_bytes(pools) {}
  const World& world;
  Step step;
  // Of those before the one that is visited: what they wait for, and who ends for them when its work is done.
  std::vector<std::uint64_t> promised, closing_bytes;
  std::vector<Id> closing;
  std::uint64_t available(std::size_t pool) const {
    return pool < world.available.size() ? world.available[pool] : kUnknown;
  }
  bool closes(Id id) const { return std::ranges::find(closing, id) != closing.end(); }
  // What has come by now has been looked at.
  void look_at(TimePoint when) {
    if (when > world.now && (!step.look_again || when < *step.look_again)) step.look_again = when;
  }
};

void Governor::set(std::vector<MemoryPool> pools, GovernorLimits limits) {
  pools_ = std::move(pools);
  limits_ = limits;
}

void Governor::ask(Id id, MemoryClaim claim, TimePoint now) {
  Account account;
  account.claim = std::move(claim);
  account.since = now;
  accounts_.insert_or_assign(id, std::move(account));
  line_.push_back(id);
}

void Governor::join(Id id, const Asker& asker) {
  const auto at = accounts_.find(id);
  if (at == accounts_.end() || at->second.state == State::ending) return;
  Account& account = at->second;
  if (account.state == State::asking) fleet::join(account.claim.askers, asker);
  if (asker.background || !std::exchange(account.claim.spare, false)) return;
  if (account.state != State::asking) ++counters_.loads;  // its grant counted none
}

void Governor::ready(Id id, const MemoryClaim& claim, std::uint64_t bytes, TimePoint now) {
  Account& account = accounts_[id];
  if (account.state == State::ending) {
    account.bytes = bytes;
    return;
  }
  if (account.state == State::loading) {
    account.took = std::chrono::duration_cast<milliseconds>(now - account.since);
  } else {
    account.claim = claim;
    account.app = claim.askers.front().app;
    std::erase(line_, id);
  }
  account.state = State::ready;
  account.bytes = bytes;
  account.since = now;
}

void Governor::touched(Id id, std::uint64_t bytes) {
  if (const auto at = accounts_.find(id); at != accounts_.end()) at->second.touched = bytes;
}

void Governor::ending(Id id, TimePoint now, TimePoint by) {
  std::erase(line_, id);
  const auto at = accounts_.find(id);
  if (at == accounts_.end() || at->second.state == State::ending) return;
  at->second.state = State::ending;
  at->second.since = now;
  at->second.ends_by = std::max(now, by);
}

void Governor::gone(Id id) {
  std::erase(line_, id);
  accounts_.erase(id);
  unwanted_.erase(id);
}

void Governor::keep(Id id, bool pinned, std::optional<milliseconds> keep) {
  const auto at = accounts_.find(id);
  if (at == accounts_.end()) return;
  at->second.claim.pinned = pinned;
  at->second.claim.keep = keep;
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

std::uint64_t Governor::bytes(Id id) const {
  const auto at = accounts_.find(id);
  return at == accounts_.end() ? 0 : at->second.bytes;
}

std::uint64_t Governor::bytes_of(const std::string& app) const {
  std::uint64_t sum = 0;
  for (const auto& [id, account] : accounts_)
    if (account.app == app) sum += account.bytes;
  return sum;
}

std::uint64_t Governor::most_for_one(std::size_t pool) const {
  std::uint64_t kept = 0;
  for (const auto& [id, account] : accounts_)
    if (account.claim.pool == pool && account.state != State::ending && stays(id, account))
      kept += account.bytes;
  return less(pools_[pool].capacity, kept);
}

std::uint64_t Governor::accounted(std::size_t pool) const {
  std::uint64_t sum = 0;
  for (const auto& [id, account] : accounts_)
    if (account.claim.pool == pool) sum += account.bytes;
  return sum;
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

bool Governor::turn_over(const Account& account, TimePoint now) const {
  return account.held || now - account.since >= std::max(limits_.turn, account.took);
}

// For another one, now.
bool Governor::may_end(const Account& account, TimePoint now) const {
  if (account.state != State::ready || account.claim.pinned || !account.idle_since) return false;
  return turn_over(account, now) || now - *account.idle_since >= limits_.linger;
}

// Those longest without work, then those at work that are to end anyway, then those that had their turn
// first.
bool Governor::ends_before(const Account& left, const Account& right, TimePoint now) const {
  const bool left_idle = may_end(left, now), right_idle = may_end(right, now);
  if (left_idle != right_idle) return left_idle;
  if (left_idle) return *left.idle_since < *right.idle_since;
  if (left.held != right.held) return left.held;
  return left.since < right.since;
}

Governor::Step Governor::decide(const World& world) {
  Round round(world, pools_.size());
  see(round);
  give_way(round);
  unload_unwanted(round);
  unload_idle(round);
  relieve(round);
  for (const Id id : std::vector<Id>(line_)) visit(round, id);
  for (auto& [id, account] : accounts_) {
    if (account.state != State::ready) continue;
    const bool holds = round.closes(id) && !may_end(account, world.now);
    // Once held it stays so while its end is planned, also when its work is done.
    const bool held = holds || (account.held && round.closes(id));
    if (held == account.held) continue;
    account.held = held;
    const char* const why = is_unwanted(id) ? kUnloaded : "others wait for its memory";
    round.step.actions.push_back({held ? Action::Kind::hold : Action::Kind::release, id, 0, {}, why});
  }
  return std::move(round.step);
}

std::optional<Governor::Action> Governor::make_room(const MemoryClaim& claim, TimePoint idle_since,
                                                    std::span<const Use> uses, TimePoint now) {
  const World world{now, uses, {}, false};
  Round round(world, pools_.size());
  see(round);
  auto victim = idle_spare(claim.pool);
  if (!victim && std::ranges::any_of(claim.askers, &Asker::may_evict)) {
    victim = idle_longest(claim.pool, idle_since);
    if (victim) ++counters_.evictions;
  }
  if (!victim) return std::nullopt;
  end(round, *victim, "model " + claim.model + " needs its memory");
  return std::move(round.step.actions.back());
}

// The ready engine of the pool that is not pinned and has been idle longest, since `idle_since` at the
// latest.
std::optional<Governor::Id> Governor::idle_longest(std::size_t pool, TimePoint idle_since) const {
  auto oldest = accounts_.end();
  for (auto at = accounts_.begin(); at != accounts_.end(); ++at) {
    const Account& a = at->second;
    if (a.claim.pool != pool || a.state != State::ready || a.claim.pinned) continue;
    if (!a.idle_since || *a.idle_since > idle_since) continue;
    if (oldest == accounts_.end() || *a.idle_since < *oldest->second.idle_since) oldest = at;
  }
  return oldest == accounts_.end() ? std::nullopt : std::optional(oldest->first);
}

// An engine of the pool that no request has used, ready or loading. Measuring processes are not among the
// uses.
std::optional<Governor::Id> Governor::idle_spare(std::size_t pool) const {
  const auto at = std::ranges::find_if(accounts_, [&](const auto& entry) {
    const Account& a = entry.second;
    const bool loads_in_background =
        a.state == State::loading && !a.claim.askers.empty() && a.claim.askers.front().background;
    const bool is_idle = a.state == State::ready && a.idle_since;
    return a.claim.spare && a.claim.pool == pool && (is_idle || loads_in_background);
  });
  return at == accounts_.end() ? std::nullopt : std::optional(at->first);
}

void Governor::see(Round& round) {
  for (auto& [id, account] : accounts_) {
    account.idle_since.reset();
    if (account.state == State::ending) round.look_at(account.ends_by + limits_.end_wait);
  }
  for (const Use& use : round.world.uses)
    if (const auto at = accounts_.find(use.id); at != accounts_.end()) at->second.idle_since = use.idle_since;
}

// Spare ones, whatever they do: for who waits, for a machine that is short of memory, and for pools that hold
// more than they may.
void Governor::give_way(Round& round) {
  const bool asked = std::ranges::any_of(line_, [&](Id id) { return !accounts_.at(id).claim.spare; });
  for (auto& [id, account] : accounts_) {
    const bool there = account.state == State::loading || account.state == State::ready;
    if (!account.claim.spare || !there) continue;
    const std::size_t pool = account.claim.pool;
    if (asked)
      end(round, id, "others ask for memory");
    else if (round.world.pressure && pools_[pool].of_the_machine)
      end(round, id, "the machine is short of memory");
    else if (accounted(pool) > pools_[pool].capacity)
      end(round, id, "the engines hold more than they may");
  }
}

void Governor::unload_unwanted(Round& round) {
  for (const Id id : unwanted_) {
    const auto at = accounts_.find(id);
    if (at == accounts_.end() || at->second.state != State::ready) continue;
    if (at->second.idle_since) {
      ++counters_.unloads;
      end(round, id, kUnloaded);
    } else {
      close(round, at->second.claim.pool, {{id}, at->second.bytes});
    }
  }
}

void Governor::unload_idle(Round& round) {
  for (auto& [id, account] : accounts_) {
    if (account.state != State::ready || account.claim.pinned || !account.claim.keep || !account.idle_since)
      continue;
    const TimePoint over = *account.idle_since + *account.claim.keep;
    if (round.world.now < over) {
      round.look_at(over);
      continue;
    }
    ++counters_.idle_unloads;
    end(round, id, "it has been without work for " + wait_text(*account.claim.keep));
  }
}

// A pool that holds more than it may, as what was loaded came out larger than was said; and a machine that is
// short of memory: those longest without work end.
void Governor::relieve(Round& round) {
  const TimePoint now = round.world.now;
  const auto end_oldest = [&](std::size_t pool, const char* why) {
    const auto oldest = idle_longest(pool, now);
    if (oldest) end(round, *oldest, why);
    return oldest.has_value();
  };
  for (std::size_t pool = 0; pool < pools_.size(); ++pool) {
    const auto stays = [&] {
      std::uint64_t sum = 0;
      for (const auto& [id, a] : accounts_)
        if (a.claim.pool == pool && a.state != State::ending) sum += a.bytes;
      return sum;
    };
    while (stays() > pools_[pool].capacity && end_oldest(pool, "the engines hold more than they may"))
      ++counters_.evictions;
    if (!round.world.pressure || !pools_[pool].of_the_machine) continue;
    if (now >= next_relief_ && end_oldest(pool, "the machine is short of memory")) {
      ++counters_.pressure_unloads;
      next_relief_ = now + limits_.pressure_pause;
    }
    round.look_at(std::max(now, next_relief_) + limits_.pressure_pause);
  }
}

void Governor::visit(Round& round, Id id) {
  Account& account = accounts_.at(id);
  const TimePoint now = round.world.now;
  const std::size_t pool = account.claim.pool;
  const std::uint64_t least = account.claim.need.least_bytes(), capacity = pools_[pool].capacity;

  std::uint64_t kept = 0, coming = 0;  // bytes in this pool: pinned; given back soon
  std::uint64_t later = 0;             // of those that could end one day
  std::vector<Id> must;                // of its group, to end whatever they hold
  bool clear = true;                   // nobody of its group is there
  for (const auto& [other_id, other] : accounts_) {
    if (other_id == id || other.state == State::asking) continue;
    const bool stuck = other.state == State::ending && now >= other.ends_by + limits_.end_wait;
    if (other.claim.pool == pool) {
      if (other.state == State::ending) {
        coming += stuck ? 0 : other.bytes;
      } else if (stays(other_id, other)) {
        kept += other.bytes;
      } else {
        later += other.bytes;
      }
    }
    if (account.claim.group.empty() || other.claim.group != account.claim.group ||
        other.claim.model == account.claim.model)
      continue;
    if (stays(other_id, other) && other.state != State::ending)
      return refuse(round, id, ErrorCode::model_unavailable,
                    "Model " + other.claim.model + " is pinned, and of group " + other.claim.group +
                        " one may be loaded.");
    clear = false;
    if (other.state != State::ending && !round.closes(other_id)) must.push_back(other_id);
  }
  const auto needs = [&](std::uint64_t available, const std::string& more, bool of_asker = false) {
    const auto sizes = config::sizes_to_compare({least, available});
    refuse(round, id, ErrorCode::insufficient_memory,
           "The model needs " + sizes[0] + " of " + memory_of(pools_[pool]) + "; " + sizes[1] +
               " are available" + more + ".",
           of_asker);
  };
  const std::uint64_t possible = std::min(less(capacity, kept), account.claim.most);
  if (least > possible) {
    needs(possible, kept == 0 || possible == account.claim.most
                        ? " to engines"
                        : " beside the " + config::size_text(kept) + " of pinned models");
    round.step.actions.back().for_good = true;
    return;
  }
  const Share share = best_share(account);
  if (least > share.could_be_left)
    return needs(share.could_be_left, " within the app's limits.resident", true);
  if (least > share.left) {
    if (account.claim.spare) return needs(share.left, " within the app's limits.resident", true);
    return wait_for_share(round, id, account, share);
  }

  const std::uint64_t free = this->free(pool, round.available(pool));
  const std::uint64_t promised = round.promised[pool];
  const std::uint64_t soon = free + coming + round.closing_bytes[pool];
  const bool fits = clear && least <= free && least + promised <= soon;
  if (account.claim.spare) {
    const bool first = line_.front() == id, short_of = round.world.pressure && pools_[pool].of_the_machine;
    if (fits && first && !short_of) return grant(round, id, account, std::min(free, soon - promised), share);
    return needs(free, !clear         ? ", and another model of its group is loaded"
                       : least > free ? ", and nobody ends for it"
                       : short_of     ? ", and the machine is short of memory"
                                      : ", and others wait for memory");
  }
  if (fits) return grant(round, id, account, std::min(free, soon - promised), share);

  if (waited_enough(round, account))
    return needs(free, "; engines at work held the rest for " + wait_text(limits_.max_wait));
  const std::uint64_t missing = less(least + promised, soon);
  if (missing > 0 || !must.empty()) {
    if (std::ranges::none_of(account.claim.askers, &Asker::may_evict))
      return needs(free, ", and its app may not end other engines (may_evict)", true);
    if (const auto idle = choose(round, account, missing, must, false)) {
      end_all(round, account, idle->ids);
    } else if (const auto at_work = choose(round, account, missing, must, true)) {
      close(round, pool, *at_work);
    } else if (least > free + coming + later) {  // what others are promised comes back, too
      return needs(free + coming + later, " or could be");
    } else {
      // Of those at work it is not decided yet who ends; what is left of them all is for those behind it.
      round.closing_bytes[pool] = std::max(round.closing_bytes[pool], later);
    }
  }
  round.promised[pool] += least;
  look_at_turns(round);
}

// True: it is to be told so. Else somebody looks again when it will have.
bool Governor::waited_enough(Round& round, Account& account) {
  if (!std::exchange(account.waited, true)) ++counters_.waits;
  round.look_at(account.since + limits_.max_wait);
  return round.world.now - account.since >= limits_.max_wait;
}

void Governor::look_at_turns(Round& round) const {
  const TimePoint now = round.world.now;
  for (const auto& [id, other] : accounts_) {
    if (other.state != State::ready || other.claim.pinned || may_end(other, now)) continue;
    if (!turn_over(other, now)) round.look_at(other.since + std::max(limits_.turn, other.took));
    if (other.idle_since) round.look_at(*other.idle_since + limits_.linger);
  }
}

void Governor::end_all(Round& round, const Account& waiter, const std::vector<Id>& idle) {
  for (const Id victim : idle) {
    ++counters_.evictions;
    end(round, victim, "model " + waiter.claim.model + " needs its memory");
  }
}

// They end when their work is done; until then they get no more of it.
void Governor::close(Round& round, std::size_t pool, const Victims& at_work) {
  round.closing.insert(round.closing.end(), at_work.ids.begin(), at_work.ids.end());
  round.closing_bytes[pool] += at_work.bytes;
}

Governor::Share Governor::share_of(const Asker& asker) const {
  if (asker.resident == 0) return {&asker, kUnknown, kUnknown};
  Share share{&asker, less(asker.resident, bytes_of(asker.app)), asker.resident};
  for (const auto& [id, account] : accounts_)
    if (account.app == asker.app && stays(id, account) && account.state != State::ending)
      share.could_be_left = less(share.could_be_left, account.bytes);
  return share;
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

// The memory is not what it waits for: nobody's engines end for it but its own app's, and it stands in
// nobody's way.
void Governor::wait_for_share(Round& round, Id id, Account& account, const Share& share) {
  const std::uint64_t least = account.claim.need.least_bytes();
  const auto refused = [&](const std::string& why) {
    const auto sizes = config::sizes_to_compare({least, share.left});
    refuse(round, id, ErrorCode::insufficient_memory,
           "The model needs " + sizes[0] + "; " + sizes[1] + " are left of the app's limits.resident" + why +
               ".",
           true);
  };
  if (waited_enough(round, account))
    return refused("; its other engines were at work for " + wait_text(limits_.max_wait));
  const std::vector<Id> must = of_same_app(round, id, *share.asker, least);
  if (!must.empty() && !share.asker->may_evict) return refused(", and it may not end engines (may_evict)");
  if (const auto idle = choose(round, account, 0, must, false))
    end_all(round, account, idle->ids);
  else if (const auto at_work = choose(round, account, 0, must, true))
    close(round, account.claim.pool, *at_work);
  look_at_turns(round);
}

std::vector<Governor::Id> Governor::of_same_app(const Round& round, Id id, const Asker& asker,
                                                std::uint64_t bytes) const {
  std::uint64_t stays = 0;
  std::vector<Id> could;
  for (const auto& [other_id, other] : accounts_) {
    if (other_id == id || other.state == State::asking || other.state == State::ending) continue;
    if (other.app != asker.app || round.closes(other_id)) continue;
    stays += other.bytes;
    if (other.state == State::ready && !other.claim.pinned) could.push_back(other_id);
  }
  std::ranges::stable_sort(could, [&](Id left, Id right) {
    return ends_before(accounts_.at(left), accounts_.at(right), round.world.now);
  });
  std::vector<Id> ends;
  for (const Id one : could) {
    if (stays + bytes <= asker.resident) break;
    stays -= accounts_.at(one).bytes;
    ends.push_back(one);
  }
  // One that loads would be in the way all the same.
  return stays + bytes <= asker.resident ? ends : std::vector<Id>{};
}

// Who ends so that `missing` bytes come free: those that must, then those longest without work; at_work: then
// those that have had their turn, too. Absent: they do not suffice.
std::optional<Governor::Victims> Governor::choose(const Round& round, const Account& waiter,
                                                  std::uint64_t missing, const std::vector<Id>& must,
                                                  bool at_work) const {
  const TimePoint now = round.world.now;
  const auto can = [&](const Account& a) {
    return a.state == State::ready && !a.claim.pinned && (may_end(a, now) || (at_work && turn_over(a, now)));
  };
  Victims victims;
  for (const Id id : must) {
    const Account& a = accounts_.at(id);
    if (!can(a)) return std::nullopt;
    victims.ids.push_back(id);
    if (a.claim.pool == waiter.claim.pool) victims.bytes += a.bytes;
  }
  std::vector<Id> others;
  for (const auto& [id, a] : accounts_)
    if (a.claim.pool == waiter.claim.pool && can(a) && !round.closes(id) &&
        std::ranges::find(must, id) == must.end())
      others.push_back(id);
  std::ranges::stable_sort(
      others, [&](Id left, Id right) { return ends_before(accounts_.at(left), accounts_.at(right), now); });
  std::size_t n = 0;
  for (; n < others.size() && victims.bytes < missing; ++n) victims.bytes += accounts_.at(others[n]).bytes;
  if (victims.bytes < missing) return std::nullopt;
  // A large one that came last may be enough without those before it.
  for (std::size_t i = n; i-- > 0;) {
    const std::uint64_t bytes = accounts_.at(others[i]).bytes;
    if (victims.bytes - bytes >= missing)
      victims.bytes -= bytes;
    else
      victims.ids.push_back(others[i]);
  }
  return victims;
}

// left: bytes of the pool that nobody else waits for. Of what the weights leave a cache may have a quarter
// where the machine's other programs live, too.
void Governor::grant(Round& round, Id id, Account& account, std::uint64_t left, const Share& share) {
  const MemoryNeed& need = account.claim.need;
  const std::uint64_t fixed = need.weight_bytes + need.scratch_bytes;
  const std::uint64_t rest = less(std::min(left, account.claim.most), fixed);
  const std::uint64_t part = pools_[account.claim.pool].of_the_machine ? rest / 4 : rest / 8 * 7;
  const std::uint64_t most = std::min(part, less(share.left, fixed));
  const std::uint64_t kv = std::max(need.least_kv_bytes, std::min(need.kv_bytes, most));
  account.bytes = fixed + kv;
  account.app = share.asker->app;
  account.state = State::loading;
  account.since = round.world.now;
  std::erase(line_, id);
  if (!account.claim.spare) ++counters_.loads;
  round.step.actions.push_back({Action::Kind::load, id, kv});
}

void Governor::refuse(Round& round, Id id, ErrorCode code, std::string why, bool of_asker) {
  if (!accounts_.at(id).claim.spare) ++counters_.refusals;
  round.step.actions.push_back(
      {Action::Kind::refuse, id, 0, Error{code, std::move(why), "", ""}, "", of_asker});
  gone(id);
}

void Governor::end(Round& round, Id id, std::string why) {
  Account& account = accounts_.at(id);
  account.state = State::ending;
  account.since = account.ends_by = round.world.now;
  account.held = false;
  round.look_at(account.ends_by + limits_.end_wait);
  round.step.actions.push_back({Action::Kind::end, id, 0, {}, std::move(why)});
}

}  // namespace flyball::fleet
