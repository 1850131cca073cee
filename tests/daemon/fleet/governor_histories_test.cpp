// The governor in random histories, against a model of the machine.
#include "daemon/fleet/governor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "tests/daemon/fleet/governor_machine.hpp"

namespace flyball::fleet {
namespace {

using Kind = Governor::Action::Kind;
using std::chrono::milliseconds;

struct Process {
  std::size_t model = 0;
  MemoryClaim claim;
  enum class State { asking, loading, ready, ending } state = State::asking;
  std::uint64_t bytes = 0, touched = 0;
  int due = 0;  // ready, or gone
  int streams = 0, longest = 0;
  int idle_since = 0;
};

class History {
 public:
  explicit History(std::uint32_t seed) : random_(seed) {
    capacity_ = {pick(50, 400), pick(50, 400)};
    GovernorLimits limits;
    limits.turn = milliseconds(pick(1, 60));
    limits.linger = milliseconds(pick(0, 10));
    limits.end_wait = milliseconds(50);
    limits.max_wait = milliseconds(2000);
    limits.pressure_pause = milliseconds(5);
    limits_ = {pick(40, 500), pick(40, 500)};
    governor_.emplace(std::vector<MemoryPool>{{"ram", capacity_[0], true}, {"gpu", capacity_[1], false}},
                      limits);
    const std::size_t n = pick(2, 7);
    for (std::size_t i = 0; i < n; ++i) {
      MemoryClaim c;
      c.model = "m" + std::to_string(i);
      c.pool = pick(0, 3) == 0 ? 1 : 0;
      c.need.weight_bytes = pick(5, capacity_[c.pool] + 10);
      c.need.scratch_bytes = pick(0, 5);
      c.need.least_kv_bytes = pick(1, 10);
      c.need.kv_bytes = c.need.least_kv_bytes * pick(1, 8);
      if (pick(0, 3) == 0) c.group = "g";
      c.pinned = pick(0, 11) == 0;
      c.askers = {asker()};
      if (pick(0, 3) == 0) c.keep = milliseconds(pick(5, 100));
      models_.push_back(c);
    }
    waiters_.resize(n + 1);
    spare_.model = "spare";  // the last index: nobody waits for it
    spare_.spare = true;
    if (pick(0, 1) == 0) spare_.group = "g";
  }

  void run(int steps) {
    for (; time_ < steps && !testing::Test::HasFatalFailure(); ++time_) {
      if (pick(0, 2) == 0) request(pick(0, models_.size() - 1));
      if (pick(0, 9) == 0 && process_of(models_.size()) == 0) measure();
      if (const Governor::Id id = process_of(pick(0, models_.size() - 1)); id != 0 && pick(0, 199) == 0) {
        governor_->unload(id);
        unloaded_.insert(id);
      }
      tick(true);
    }
    // Nobody comes any more: everybody is answered in the time that it takes to give each its turn.
    const int end = time_ + 20'000;
    while (waiting() > 0 && time_ < end && !testing::Test::HasFatalFailure()) {
      tick(false);
      ++time_;
    }
    EXPECT_EQ(waiting(), 0U) << "somebody waits for ever";
    for (auto& [id, p] : processes_) governor_->gone(id);
    for (const auto& pool : governor_->pools()) EXPECT_EQ(pool.accounted, 0U) << "a leak";
    EXPECT_GT(served_ + refused_, 0U);
  }

 private:
  std::uint64_t pick(std::uint64_t from, std::uint64_t to) {
    return std::uniform_int_distribution<std::uint64_t>(from, to)(random_);
  }
  TimePoint now() const { return TimePoint() + milliseconds(time_); }
  std::size_t waiting() const {
    std::size_t n = 0;
    for (const std::size_t w : waiters_) n += w;
    return n;
  }

  // An app with a limit, or one of those without.
  Asker asker() {
    const std::size_t app = pick(0, 3);
    return {std::string(1, static_cast<char>('a' + app)), pick(0, 7) != 0, app < 2 ? limits_[app] : 0};
  }

  Governor::Id process_of(std::size_t model) const {
    for (const auto& [id, p] : processes_)
      if (p.model == model) return id;
    return 0;
  }
  void request(std::size_t model) {
    const Governor::Id id = process_of(model);
    if (id != 0 && processes_[id].state == Process::State::ready && !governor_->held(id)) return stream(id);
    ++waiters_[model];
    if (id == 0) return spawn(model);
    Process& p = processes_[id];
    if (p.state != Process::State::asking) return;
    const Asker other = asker();
    join(p.claim.askers, other);
    governor_->join(id, other);
  }
  void spawn(std::size_t model) {
    Process p;
    p.model = model;
    p.claim = models_[model];
    p.claim.askers = {asker()};
    processes_[++last_] = p;
    governor_->ask(last_, p.claim, now());
  }
  // Something else than an engine, of whatever is left.
  void measure() {
    Process p;
    p.model = models_.size();
    p.claim = spare_;
    p.claim.pool = pick(0, 3) == 0 ? 1 : 0;
    p.claim.need = {pick(1, 80), 0, 2, 1};
    processes_[++last_] = p;
    governor_->ask(last_, p.claim, now());
  }
  void stream(Governor::Id id) {
    Process& p = processes_[id];
    ++p.streams;
    p.longest = std::max(p.longest, time_ + static_cast<int>(pick(1, 40)));
    ++served_;
  }
  void serve_waiters(Governor::Id id) {
    const std::size_t model = processes_[id].model;
    for (std::size_t n = std::exchange(waiters_[model], 0); n > 0; --n) stream(id);
  }
  void gone(Governor::Id id) {
    const std::size_t model = processes_[id].model;
    processes_.erase(id);
    governor_->gone(id);
    if (waiters_[model] > 0) spawn(model);
  }

  void tick(bool accidents) {
    std::vector<Governor::Id> ids;
    for (const auto& [id, p] : processes_) ids.push_back(id);
    for (const Governor::Id id : ids) {
      Process& p = processes_[id];
      if (accidents && pick(0, 299) == 0) {  // a crash, whatever it does
        gone(id);
        continue;
      }
      if (p.state == Process::State::loading && time_ >= p.due) {
        // Other bytes than were said; more only where the history says that there may be.
        p.bytes =
            p.bytes - std::min(p.bytes, pick(0, p.bytes / 20 + 1)) + (overrun_ ? pick(0, p.bytes / 10) : 0);
        p.state = Process::State::ready;
        p.idle_since = time_;
        p.due = time_ + static_cast<int>(pick(1, 60));  // of a spare one: it has measured
        governor_->ready(id, p.claim, p.bytes, now());
        serve_waiters(id);
      } else if (p.claim.spare && p.state == Process::State::ready && time_ >= p.due) {
        gone(id);
      } else if (p.state == Process::State::ready && p.streams > 0 && time_ >= p.longest) {
        p.streams = 0;
        p.idle_since = time_;
      } else if (p.state == Process::State::ending && time_ >= p.due) {
        gone(id);
      }
    }
    decide(accidents);
  }

  void decide(bool foreign) {
    for (int round = 0;; ++round) {
      ASSERT_LT(round, 1000) << "it never comes to rest";
      std::vector<Governor::Use> uses;
      for (const auto& [id, p] : processes_)
        if (p.state == Process::State::ready && !p.claim.spare)
          uses.push_back(
              {id, p.streams > 0 ? std::nullopt : std::optional(TimePoint() + milliseconds(p.idle_since))});
      const std::uint64_t ram = foreign && pick(0, 9) == 0 ? available_beside_others() : Governor::kUnknown;
      const std::uint64_t available[] = {ram, Governor::kUnknown};
      foreign_ = ram;
      const auto step = governor_->decide({now(), uses, available, foreign && pick(0, 49) == 0});
      for (const auto& action : step.actions) act(action);
      check();
      if (step.actions.empty()) break;
    }
    check_spare();
  }
  // Whoever waits finds nothing spare in his way, and a spare one is answered at once.
  void check_spare() {
    bool asks = false, spare = false;
    for (const auto& [id, p] : processes_) {
      ASSERT_FALSE(p.claim.spare && p.state == Process::State::asking);
      asks |= p.state == Process::State::asking;
      spare |= p.claim.spare && p.state != Process::State::ending;
    }
    ASSERT_FALSE(asks && spare);
  }
  // What the system says it has, beside others' use and what engines have written by now.
  std::uint64_t available_beside_others() {
    others_ = pick(0, capacity_[0]);
    std::uint64_t used = others_;
    for (auto& [id, p] : processes_) {
      if (p.claim.pool != 0) continue;
      p.touched = pick(0, p.bytes);
      used += p.touched;
      governor_->touched(id, p.touched);
    }
    return capacity_[0] - std::min(capacity_[0], used);
  }
  void act(const Governor::Action& action) {
    ASSERT_TRUE(processes_.contains(action.id));
    Process& p = processes_[action.id];
    switch (action.kind) {
      case Kind::load:
        ASSERT_EQ(p.state, Process::State::asking);
        ASSERT_GE(action.kv_bytes, p.claim.need.least_kv_bytes);
        p.bytes = p.claim.need.weight_bytes + p.claim.need.scratch_bytes + action.kv_bytes;
        p.state = Process::State::loading;
        if (foreign_ != Governor::kUnknown && p.claim.pool == 0) {
          std::uint64_t used = others_;
          for (const auto& [id, other] : processes_) used += other.claim.pool == 0 ? other.bytes : 0;
          ASSERT_LE(used, capacity_[0]) << "promised to engines beside what others use";
        }
        p.due = time_ + static_cast<int>(pick(1, 20));
        break;
      case Kind::refuse: {
        const std::size_t model = p.model;
        ASSERT_EQ(p.state, Process::State::asking);
        if (!p.claim.spare) check_refusal(p, *action.error);
        refused_ += std::exchange(waiters_[model], 0);
        processes_.erase(action.id);
        break;
      }
      case Kind::end:
        ASSERT_FALSE(action.why.contains("model spare")) << "an engine ends for one";
        ASSERT_TRUE(p.state == Process::State::ready ||
                    (p.claim.spare && p.state == Process::State::loading));
        ASSERT_EQ(p.streams, 0) << "a stream is cut";
        ASSERT_TRUE(!p.claim.pinned || unloaded_.contains(action.id));
        p.state = Process::State::ending;
        p.due = time_ + static_cast<int>(pick(0, 30));
        break;
      case Kind::hold:
        ASSERT_EQ(p.state, Process::State::ready);
        break;
      case Kind::release:
        ASSERT_EQ(p.state, Process::State::ready);
        serve_waiters(action.id);
        break;
    }
  }
  // With nobody else there it had been granted: so somebody is, or the world is too small for it.
  void check_refusal(const Process& p, const Error& error) {
    if (error.message.contains(" ms")) return;  // it waited for long enough
    const std::uint64_t least = p.claim.need.least_bytes();
    bool fits_app = false, may_evict = false;
    for (const Asker& one : p.claim.askers) {
      fits_app |= one.resident == 0 || governor_->bytes_of(one.app) + least <= one.resident;
      may_evict |= one.may_evict;
    }
    const bool fits_pool = governor_->free(p.claim.pool, foreign_) >= least;
    const bool of_group = error.code == ErrorCode::model_unavailable;
    ASSERT_TRUE(!fits_app || !fits_pool || of_group || !may_evict) << error.message;
  }
  void check() {
    std::uint64_t sums[2] = {};
    for (const auto& [id, p] : processes_) {
      sums[p.claim.pool] += p.bytes;
      ASSERT_EQ(governor_->bytes(id), p.bytes);
      for (const auto& [other_id, other] : processes_)
        ASSERT_FALSE(!p.claim.group.empty() && other.claim.group == p.claim.group && other.model != p.model &&
                     p.bytes > 0 && other.bytes > 0)
            << "two of a group";
    }
    const auto pools = governor_->pools();
    for (std::size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(pools[i].accounted, sums[i]);
      if (!overrun_) {
        ASSERT_LE(sums[i], capacity_[i]);
        ASSERT_LE(governor_->bytes_of(i == 0 ? "a" : "b"), limits_[i]) << "of an app";
      }
    }
  }

 public:
  bool overrun_ = false;

 private:
  std::mt19937 random_;
  std::vector<std::uint64_t> capacity_, limits_;  // of the pools; of apps a and b
  std::optional<Governor> governor_;
  std::vector<MemoryClaim> models_;
  MemoryClaim spare_;
  std::vector<std::size_t> waiters_;  // by model
  std::map<Governor::Id, Process> processes_;
  std::set<Governor::Id> unloaded_;  // on the operator's word
  Governor::Id last_ = 0;
  int time_ = 0;
  std::uint64_t others_ = 0;                    // bytes that are nobody's here, as of the last look
  std::uint64_t foreign_ = Governor::kUnknown;  // what the machine had at the last decision
  std::size_t served_ = 0, refused_ = 0;
};

TEST(GovernorHistories, NoPoolIsExceededNoByteIsLeakedNobodyWaitsForEver) {
  std::random_device device;
  const std::uint32_t first = device();
  std::printf("seeds %u and the 119 after it\n", first);
  for (std::uint32_t i = 0; i < 120; ++i) {
    SCOPED_TRACE("seed " + std::to_string(first + i));
    History history(first + i);
    history.overrun_ = i % 4 == 3;
    history.run(600);
    if (HasFailure()) return;
  }
}

// 2x oversubscribed, both asked for all the time.
TEST(GovernorHistories, TwoModelsThatDoNotFitTogetherTakeTurns) {
  Governor governor({{"ram", 100, true}});
  int turns[2] = {};
  Governor::Id ids[2] = {}, last = 0;
  bool ready[2] = {};
  int streams_end[2] = {};
  for (int time = 0; time < 60'000; time += 10) {
    const TimePoint now = TimePoint() + milliseconds(time);
    for (int i = 0; i < 2; ++i) {
      if (ids[i] == 0) governor.ask(ids[i] = ++last, claim(i == 0 ? "a" : "b", 90), now);
      if (ready[i] && !governor.held(ids[i])) streams_end[i] = time + 300;  // another one, always
    }
    std::vector<Governor::Use> uses;
    for (int i = 0; i < 2; ++i)
      if (ready[i]) uses.push_back({ids[i], time < streams_end[i] ? std::nullopt : std::optional(now)});
    for (const auto& action : governor.decide({now, uses, {}, false}).actions) {
      const int i = action.id == ids[0] ? 0 : 1;
      ASSERT_NE(action.kind, Kind::refuse);
      if (action.kind == Kind::load) {
        governor.ready(ids[i], claim(i == 0 ? "a" : "b", 90), 90, now);
        ready[i] = true;
        streams_end[i] = time + 300;
        ++turns[i];
      }
      if (action.kind == Kind::end) {
        ASSERT_GE(time, streams_end[i]);
        governor.gone(ids[i]);
        ids[i] = 0;
        ready[i] = false;
      }
    }
    ASSERT_FALSE(ready[0] && ready[1]);
  }
  EXPECT_GE(turns[0], 5);
  EXPECT_GE(turns[1], 5);
  EXPECT_LE(turns[0] + turns[1], 12) << "more loading than serving";
}

}  // namespace
}  // namespace flyball::fleet
