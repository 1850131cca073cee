// Model-based random test of the scheduler: submit, cancel, pause, resume, preempt, fork, evict, restore,
// fail, in any order, over a simulated KV memory. The books balance, each sequence ends once, none starves,
// and whatever a step reads of the cache is what the sequence's own tokens would have put there.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <set>

#include "backends/engine/scheduler.hpp"

namespace flyball::engine {
namespace {

constexpr std::uint32_t kBlock = 4;

// What the test believes about a sequence.
struct Believed {
  std::string owner;
  std::vector<Token> tokens;
  std::uint32_t most;
  bool paused = false;
  std::uint32_t scored = 0, score_to = 0;  // rows wanted of its prompt, and those that it has
};

// What KV at `position` stands for: every token up to it, and whose they are.
std::uint64_t meaning(const Believed& b, std::uint32_t position) {
  std::uint64_t h = std::hash<std::string>()(b.owner);
  for (std::uint32_t i = 0; i <= position; ++i)
    h = (h ^ static_cast<std::uint64_t>(b.tokens[i] + 1)) * 1099511628211ULL;
  return h;
}

// Blocks outside of the memory: by key, what their slots meant.
struct Cold final : ColdBlocks {
  bool holds(const kv::ChainKey& key) const override { return blocks.contains(key); }
  std::map<kv::ChainKey, std::vector<std::uint64_t>> blocks;
};

class Walk {
 public:
  explicit Walk(std::uint64_t seed)
      : random_(seed), limits_(random_limits()), s_(limits_, limits_.keyed ? &cold_ : nullptr) {
    memory_.resize(std::size_t{limits_.kv_blocks} * kBlock);
    for (Believed& b : families_) {
      b.owner = below(4) == 0 ? "other" : "app";
      for (std::uint32_t n = below(40); n > 0; --n) b.tokens.push_back(static_cast<Token>(below(3)));
    }
  }

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFatalFailure(); ++i) step();
    if (!testing::Test::HasFatalFailure()) finish();
  }
  std::uint64_t reused() const { return reused_; }
  std::uint64_t copies() const { return copies_; }
  std::uint64_t restored() const { return restored_; }

 private:
  std::uint32_t below(std::uint64_t n) { return static_cast<std::uint32_t>(random_() % n); }
  SchedulerLimits random_limits() {
    SchedulerLimits l;
    l.kv_blocks = 4 + below(40);
    l.max_sequences = 1 + below(6);
    l.step_tokens = 1 + below(24);
    l.max_waiting = 8;
    if (below(2) == 0) l.logit_rows = l.max_sequences + below(10);
    l.block_size = kBlock;
    if (below(3) != 0) l.keyed = kv::Keyed{kv::space_key("walk"), 1 + below(3)};
    return l;
  }
  // A token costs a second.
  config::RequestSettings random_settings() {
    config::RequestSettings s;
    if (below(4) == 0) s.step_budget = std::chrono::seconds(1 + below(30));
    s.place = static_cast<config::QueuePlace>(below(3));
    return s;
  }
  void save(const std::vector<kv::KeyedBlock>& blocks) {
    for (const kv::KeyedBlock& b : blocks) {
      if (below(4) == 0) continue;  // it is best effort
      const auto at = memory_.begin() + b.block * kBlock;
      cold_.blocks[b.key].assign(at, at + kBlock);
    }
  }
  void restore_some() {
    const auto next = s_.next_restores(1 + below(4));
    ASSERT_EQ(next.empty(), !s_.restoring());
    if (next.empty()) return;
    std::uint32_t n = 0;
    for (; n < next.size() && below(10) != 0; ++n) {
      ASSERT_EQ(next[n].id, next[0].id);
      std::ranges::copy(cold_.blocks.at(next[n].key), memory_.begin() + next[n].block * kBlock);
    }
    restored_ += n;
    s_.restored(next[0].id, n, n < next.size());
    ASSERT_TRUE(s_.balanced());
  }
  void end(SequenceId id) {
    ++ends_[id];
    live_.erase(id);
  }

  void submit() {
    Believed b = families_[below(std::size(families_))];  // prompts that begin alike
    b.tokens.resize(below(b.tokens.size() + 1));
    for (std::uint32_t n = 1 + below(6); n > 0; --n) b.tokens.push_back(static_cast<Token>(below(3)));
    b.most = static_cast<std::uint32_t>(b.tokens.size()) + 1 + below(30);
    if (b.tokens.size() > 1 && below(3) == 0) {
      b.score_to = static_cast<std::uint32_t>(b.tokens.size()) - 1;
      b.scored = below(3) == 0 ? below(b.score_to + 1) : 0;
    }
    const SequenceId id = next_++;
    config::RequestSettings settings = random_settings();
    const bool spare = below(8) == 0;
    if (spare) settings.place = config::QueuePlace::behind;
    const auto ok = s_.submit({id, b.owner, b.tokens, b.most, settings, b.scored, b.score_to, spare});
    if (ok) {
      live_[id] = std::move(b);
    } else {
      const bool never = (b.most + kBlock - 1) / kBlock > limits_.kv_blocks;
      ASSERT_EQ(ok.error().code == ErrorCode::insufficient_memory, never) << ok.error().message;
      ASSERT_FALSE(s_.contains(id));
    }
  }

  void disturb() {
    s_.cancel(next_ + 1000);  // unknown
    if (live_.empty()) return;
    auto it = live_.begin();
    std::advance(it, below(live_.size()));
    const SequenceId id = it->first;
    const std::uint32_t what = below(12);
    if (what == 0) {
      s_.cancel(id);
      end(id);
    } else if (what <= 2) {
      s_.pause(id);
      it->second.paused = true;
    } else if (what <= 5) {
      s_.resume(id);
      it->second.paused = false;
    }
  }

  // The device's part: copies, then every read and write of the step.
  void execute(const StepPlan& plan) {
    for (const PlannedCopy& copy : plan.copies) {
      ++copies_;
      for (std::uint32_t i = 0; i < kBlock; ++i)
        memory_[copy.to * kBlock + i] = memory_[copy.from * kBlock + i];
    }
    written_.clear();
    for (const auto& p : plan.sequences) {
      const Believed& b = live_.at(p.id);
      const auto table = s_.kv().table(p.id);
      const auto slot = [&](std::uint32_t at) { return table[at / kBlock] * kBlock + at % kBlock; };
      for (std::uint32_t at = 0; at < p.first_position; ++at)
        ASSERT_EQ(memory_[slot(at)], meaning(b, at)) << "sequence " << p.id << " position " << at;
      for (std::uint32_t at = p.first_position; at < p.first_position + p.n_tokens; ++at)
        ASSERT_TRUE(written_.emplace(slot(at), meaning(b, at)).second) << "written twice";
      if (started_.insert(p.id).second) reused_ += p.first_position;
    }
    for (const auto& [at, value] : written_) memory_[at] = value;
  }

  void check(const StepPlan& plan) {
    std::uint32_t total = 0, rows = 0, scored = 0;
    std::set<SequenceId> seen;
    for (const auto& p : plan.sequences) {
      ASSERT_TRUE(seen.insert(p.id).second);
      const auto it = live_.find(p.id);
      ASSERT_NE(it, live_.end());
      ASSERT_FALSE(it->second.paused);
      ASSERT_GT(p.n_tokens, 0U);
      const std::size_t known = it->second.tokens.size();
      ASSERT_LE(p.first_position + p.n_tokens, known);
      ASSERT_EQ(p.want_logits, p.first_position + p.n_tokens == known);
      const Believed& b = it->second;
      ASSERT_TRUE(b.scored == b.score_to || p.first_position <= b.scored) << "a row is missed";
      ASSERT_EQ(p.n_scored, scored_to(p, b) - b.scored);
      scored += p.n_scored;
      rows += p.n_scored + (p.want_logits ? 1 : 0);
      ASSERT_GE(s_.kv().table(p.id).size() * kBlock, p.first_position + p.n_tokens);
      total += p.n_tokens;
    }
    ASSERT_EQ(total, plan.work.tokens);
    ASSERT_EQ(scored, plan.work.rows);
    ASSERT_LE(rows, std::max(limits_.logit_rows, limits_.max_sequences));
    ASSERT_LE(total, std::max(limits_.step_tokens, limits_.max_sequences));
    ASSERT_LE(s_.running(), limits_.max_sequences);
  }

  // How far the rows of its prompt are given behind this step.
  static std::uint32_t scored_to(const PlannedSequence& p, const Believed& b) {
    return std::max(b.scored, std::min(p.first_position + p.n_tokens, b.score_to));
  }

  void audit() {
    ASSERT_TRUE(s_.balanced());
    std::set<kv::BlockId> held;
    for (const auto& [id, b] : live_) {
      ASSERT_TRUE(s_.contains(id));
      for (const kv::BlockId block : s_.kv().table(id)) held.insert(block);
    }
    ASSERT_EQ(held.size(), s_.kv().used());
    ASSERT_EQ(s_.waiting() + s_.running(), live_.size());
  }

  std::vector<StepResult> results(const StepPlan& plan, bool early) {
    std::vector<StepResult> out;
    for (const auto& p : plan.sequences) {
      if (!live_.contains(p.id)) continue;
      Believed& b = live_[p.id];
      b.scored = scored_to(p, b);
      if (!p.want_logits) {
        if (p.n_scored == 0 || !early || below(25) != 0) continue;
        out.push_back({p.id, true, 0, below(2) == 0});
        end(p.id);
        continue;
      }
      EXPECT_EQ(b.scored, b.score_to) << "rows come before a token";
      const bool over = b.tokens.size() + 1 == b.most || (early && below(25) == 0);
      const auto token = static_cast<Token>(below(3));
      out.push_back({p.id, over, token, over && below(8) == 0});
      if (over) {
        end(p.id);
      } else {
        b.tokens.push_back(token);
        for (std::uint64_t n = below(3) == 0 ? below(20) : 0; n > 0 && b.tokens.size() + 1 < b.most; --n) {
          out.back().forced.push_back(static_cast<Token>(below(3)));
          b.tokens.push_back(out.back().forced.back());
        }
      }
    }
    return out;
  }

  void step() {
    if (below(3) == 0) submit();
    disturb();
    StepBudget budget = token_budget(static_cast<std::uint32_t>(below(32)));
    budget.cost = {static_cast<double>(below(4)), 1, static_cast<double>(below(3)) / 10};
    budget.cost.row = static_cast<double>(below(3));
    budget.part /= 1 + static_cast<double>(below(3));
    budget.can_stop = below(2) == 0;
    if (below(3) == 0) save(s_.kv().keyed_blocks());
    restore_some();
    const StepPlan plan = s_.plan(budget);
    save(s_.take_evicted());
    ASSERT_TRUE(s_.balanced());
    check(plan);
    if (testing::Test::HasFatalFailure()) return;
    if (plan.empty()) {
      if (s_.restoring()) return;
      // Nothing may be startable: all that live are paused.
      for (const auto& [id, b] : live_) ASSERT_TRUE(b.paused) << "sequence " << id << " starves";
      return;
    }
    execute(plan);
    disturb();
    if (below(40) == 0) {  // the step fails, and may have left anything where it wrote
      for (const auto& [at, value] : written_) memory_[at] = random_();
      for (const SequenceId id : s_.abort()) {
        ASSERT_TRUE(live_.contains(id));
        end(id);
      }
      for (const auto& p : plan.sequences) ASSERT_FALSE(live_.contains(p.id));
    } else if (below(40) == 0) {  // it is given up
      for (const auto& [at, value] : written_) memory_[at] = random_();
      s_.retract();
    } else {
      s_.commit(results(plan, true));
    }
    audit();
  }

  // Left alone, everything ends.
  void finish() {
    for (auto& [id, b] : live_) {
      s_.resume(id);
      b.paused = false;
    }
    for (int guard = 0; !live_.empty(); ++guard) {
      ASSERT_LT(guard, 100'000) << "does not end";
      restore_some();
      const StepPlan plan = s_.plan();
      if (plan.empty()) {
        ASSERT_TRUE(s_.restoring());
        continue;
      }
      execute(plan);
      s_.commit(results(plan, false));
      if (testing::Test::HasFatalFailure()) return;
    }
    ASSERT_TRUE(s_.plan().empty());
    ASSERT_EQ(s_.kv().used(), 0U);
    ASSERT_TRUE(s_.balanced());
    for (const auto& [id, n] : ends_) ASSERT_EQ(n, 1) << "sequence " << id;
  }

  std::mt19937_64 random_;
  SchedulerLimits limits_;
  Cold cold_;
  Scheduler s_;
  Believed families_[3];
  std::map<SequenceId, Believed> live_;
  std::map<SequenceId, int> ends_;
  std::set<SequenceId> started_;
  std::vector<std::uint64_t> memory_;               // by block and slot
  std::map<std::uint32_t, std::uint64_t> written_;  // in the step in flight
  SequenceId next_ = 1;
  std::uint64_t reused_ = 0, copies_ = 0, restored_ = 0;
};

TEST(Scheduler, RandomWalkKeepsTheBooksAndEndsEachSequenceOnce) {
  // FLYBALL_SEED=n runs one walk, FLYBALL_WALKS=n that many.
  const char* one = std::getenv("FLYBALL_SEED");
  const char* walks = std::getenv("FLYBALL_WALKS");
  const std::uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 1;
  const std::uint64_t n = one != nullptr ? 1 : walks != nullptr ? std::strtoull(walks, nullptr, 10) : 60;
  std::uint64_t reused = 0, copies = 0, restored = 0;
  for (std::uint64_t seed = first; seed < first + n && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Walk walk(seed);
    walk.run(one != nullptr ? 2'000 : 500);
    reused += walk.reused();
    copies += walk.copies();
    restored += walk.restored();
  }
  std::cout << "seeds " << first << " to " << first + n - 1 << ": " << reused << " positions taken over, "
            << copies << " blocks copied, " << restored << " restored\n";
  EXPECT_GT(reused, 100U);
  EXPECT_GT(copies, 5U);
  EXPECT_GT(restored, 100U);
}

}  // namespace
}  // namespace flyball::engine
