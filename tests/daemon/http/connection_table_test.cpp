// The connections that are let in and those that end for them, on a clock and with ids of the test's own.
#include "daemon/http/connection_table.hpp"

#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace flyball::http {
namespace {

using std::chrono::milliseconds;
using Id = ConnectionTable::Id;

struct ConnectionTableTest : ::testing::Test {
  ConnectionTable table{{.all = 8, .per_address = 6, .strangers = 7}};
  ConnectionTable::TimePoint now{std::chrono::hours(1)};
  Id last = 0;

  ConnectionTable::Verdict admit(const std::string& address = "a") {
    now += milliseconds(1);
    return table.admit(++last, address, now);
  }
  Id accepted(const std::string& address = "a") {
    const auto verdict = admit(address);
    EXPECT_TRUE(verdict.accepted && !verdict.victim);
    return last;
  }
  void become(Id id, Activity activity, bool known = true) {
    now += milliseconds(1);
    table.update(id, activity, known, now);
  }
};

TEST(ConnectionBounds, DefaultsAreSharesOfConnections) {
  config::HttpLimits limits;
  EXPECT_EQ(ConnectionBounds::of(limits).per_address, 3072U);
  EXPECT_EQ(ConnectionBounds::of(limits).strangers, 3584U);
  limits.connections_per_address = 100;
  limits.reserved_connections = 96;
  EXPECT_EQ(ConnectionBounds::of(limits).per_address, 100U);
  EXPECT_EQ(ConnectionBounds::of(limits).strangers, 4000U);
}

TEST(ConnectionBounds, AlwaysLeaveRoomForOneStranger) {
  for (const std::uint32_t connections : {1U, 2U, 3U, 7U, 8U}) {
    config::HttpLimits limits;
    limits.connections = connections;
    const auto bounds = ConnectionBounds::of(limits);
    EXPECT_GE(bounds.per_address, 1U);
    EXPECT_LE(bounds.per_address, connections);
    EXPECT_GE(bounds.strangers, 1U);
    limits.reserved_connections = 5;  // where connections have been cut since
    EXPECT_GE(ConnectionBounds::of(limits).strangers, 1U);
  }
}

TEST_F(ConnectionTableTest, ClosesTheConnectionThatWasSilentLongest) {
  const Id first = accepted(), second = accepted();
  for (int i = 0; i < 4; ++i) accepted();
  auto verdict = admit();
  EXPECT_TRUE(verdict.accepted);
  EXPECT_EQ(verdict.victim, first);
  EXPECT_TRUE(verdict.victim_was_silent);
  EXPECT_EQ(admit().victim, second);
  EXPECT_EQ(table.counts().silent, 6U);
  EXPECT_EQ(table.counts().closed_silent, 2U);
}

TEST_F(ConnectionTableTest, ClosesAStrangersIdleConnectionBeforeAnApps) {
  const Id app = accepted(), stranger = accepted(), late = accepted();
  become(app, Activity::idle);
  become(late, Activity::idle, false);
  become(stranger, Activity::working, false);
  become(stranger, Activity::idle, false);  // after `late`
  for (int i = 0; i < 3; ++i) become(accepted(), Activity::working);
  now += ConnectionTable::kIdleFloor;
  const auto verdict = admit();
  EXPECT_EQ(verdict.victim, late);
  EXPECT_FALSE(verdict.victim_was_silent);
  become(last, Activity::working);
  EXPECT_EQ(admit().victim, stranger);
  become(last, Activity::working);
  EXPECT_EQ(admit().victim, app);
  EXPECT_EQ(table.counts().closed_idle, 3U);
}

TEST_F(ConnectionTableTest, SparesAnAppsConnectionThatIsIdleForLessThanTheFloor) {
  const Id app = accepted();
  for (int i = 0; i < 5; ++i) become(accepted(), Activity::working);
  become(app, Activity::idle);
  now += ConnectionTable::kIdleFloor - milliseconds(2);
  EXPECT_FALSE(admit().accepted);
  EXPECT_EQ(admit().victim, app);
  EXPECT_EQ(table.counts().refused, 1U);
}

TEST_F(ConnectionTableTest, AConnectionThatWasUsedAgainIsIdleSinceThen) {
  const Id first = accepted(), second = accepted();
  for (int i = 0; i < 4; ++i) become(accepted(), Activity::working);
  become(first, Activity::idle);
  become(second, Activity::idle);
  now += ConnectionTable::kIdleFloor;
  become(first, Activity::idle);
  EXPECT_EQ(admit().victim, second);
  const Id newcomer = last;
  EXPECT_EQ(admit().victim, newcomer) << "the first has been idle for less than the floor";
}

TEST_F(ConnectionTableTest, ClosesAnAppsIdleConnectionBeforeANewcomers) {
  const Id app = accepted();
  for (int i = 0; i < 4; ++i) become(accepted(), Activity::working);
  become(app, Activity::idle);
  now += ConnectionTable::kIdleFloor;
  const Id newcomer = accepted();
  EXPECT_EQ(admit().victim, app);
  EXPECT_EQ(admit().victim, newcomer) << "where nobody else can be closed";
}

TEST_F(ConnectionTableTest, RefusesWhereAllAreWorking) {
  for (int i = 0; i < 6; ++i) become(accepted(), Activity::working);
  now += milliseconds(1'000'000);
  const auto verdict = admit();
  EXPECT_FALSE(verdict.accepted);
  EXPECT_FALSE(verdict.victim);
  EXPECT_EQ(table.counts().working, 6U);
  table.remove(3);
  EXPECT_TRUE(admit().accepted);
}

TEST_F(ConnectionTableTest, AFullAddressPaysForItselfAlone) {
  const Id other = accepted("b");  // silent for longest
  const Id first = accepted("a");
  for (int i = 0; i < 5; ++i) accepted("a");
  EXPECT_EQ(admit("a").victim, first);
  EXPECT_EQ(admit("b").victim, other);  // the strangers' bound: whoever has been silent longest
}

TEST_F(ConnectionTableTest, StrangersNeverTakeTheReserve) {
  table.set_bounds({.all = 9, .per_address = 6, .strangers = 7});
  become(accepted("app"), Activity::idle);
  for (int i = 0; i < 4; ++i) become(accepted("b"), Activity::working, false);
  for (int i = 0; i < 3; ++i) become(accepted("c"), Activity::working, false);
  now += ConnectionTable::kIdleFloor;
  EXPECT_FALSE(admit("d").accepted)
      << "neither the free ninth nor the app's idle one is a stranger's to take";
  become(2, Activity::working, true);  // a stranger has shown its key
  EXPECT_FALSE(admit("d").victim);
  EXPECT_EQ(table.counts().strangers, 7U);
  EXPECT_EQ(table.counts().refused, 1U);
}

TEST_F(ConnectionTableTest, LowerBoundsHoldForNewcomers) {
  const Id first = accepted();
  for (int i = 0; i < 4; ++i) accepted();
  table.set_bounds({.all = 2, .per_address = 2, .strangers = 2});
  EXPECT_EQ(admit("b").victim, first);
  EXPECT_EQ(table.counts().silent, 5U);
}

TEST_F(ConnectionTableTest, IgnoresConnectionsThatItDoesNotHave) {
  table.remove(4711);
  table.update(4711, Activity::idle, true, now);
  EXPECT_EQ(table.counts().idle, 0U);
}

// The attack: idle sockets in any number, from one address, and apps beside them at the same one.
TEST(ConnectionTable, TenThousandSilentSocketsLockNoAppOut) {
  ConnectionTable table(ConnectionBounds::of({}));
  ConnectionTable::TimePoint now{std::chrono::hours(1)};
  Id last = 0;
  std::set<Id> apps;
  for (int n = 0; n < 10'000; ++n) {
    now += milliseconds(1);
    const auto verdict = table.admit(++last, "127.0.0.1", now);
    ASSERT_TRUE(verdict.accepted) << n;
    ASSERT_FALSE(verdict.victim && apps.contains(*verdict.victim)) << n;
    if (n % 100 != 0) continue;
    apps.insert(last);
    table.update(last, n % 200 == 0 ? Activity::idle : Activity::working, true, now);
  }
  EXPECT_EQ(table.counts().silent, 3072U - apps.size());
}

// Thousands of connections that come, go and change, against a plain list that is searched.
TEST(ConnectionTable, AgreesWithAPlainSearchOverThousandsOfConnections) {
  struct Plain {
    std::string address;
    Activity activity = Activity::silent;
    bool known = false;
    ConnectionTable::TimePoint since;
    std::uint64_t order = 0;  // of coming into its queue
  };
  const ConnectionBounds bounds{.all = 1000, .per_address = 400, .strangers = 900};
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 draw(seed);
  ConnectionTable table(bounds);
  std::map<Id, Plain> plain;
  ConnectionTable::TimePoint now{std::chrono::hours(1)};
  std::uint64_t order = 0, refused = 0;
  Id last = 0;
  for (int step = 0; step < 20'000; ++step) {
    now += milliseconds(draw() % 4);
    const unsigned what = draw() % 4;
    if (what < 2) {
      const std::string address(1, static_cast<char>('a' + draw() % 4 * (draw() % 2)));
      std::size_t at_address = 0, strangers = 0;
      for (const auto& [id, p] : plain) {
        at_address += p.address == address;
        strangers += !p.known;
      }
      const bool address_full = at_address >= bounds.per_address,
                 strangers_full = strangers >= bounds.strangers;
      const bool full = address_full || strangers_full || plain.size() >= bounds.all;
      std::optional<Id> victim;
      std::pair<int, std::uint64_t> best;
      for (const auto& [id, p] : plain) {
        if (!full || p.activity == Activity::working) continue;
        if (address_full && p.address != address) continue;
        if (p.known && (strangers_full || now - p.since < ConnectionTable::kIdleFloor)) continue;
        const bool young = now - p.since < ConnectionTable::kIdleFloor;
        const std::pair rank(p.activity == Activity::silent ? (young ? 3 : 0) : p.known ? 2 : 1, p.order);
        if (!victim || rank < best) victim = id, best = rank;
      }
      const auto verdict = table.admit(++last, address, now);
      ASSERT_EQ(verdict.victim, victim) << step;
      ASSERT_EQ(verdict.accepted, !full || victim) << step;
      refused += !verdict.accepted;
      if (victim) plain.erase(*victim);
      if (verdict.accepted) plain[last] = {address, Activity::silent, false, now, ++order};
      continue;
    }
    if (plain.empty()) continue;
    auto it = plain.lower_bound(draw() % (last + 1));
    if (it == plain.end()) it = plain.begin();
    auto& [id, p] = *it;
    if (what == 3 && draw() % 4 == 0) {
      table.remove(id);
      plain.erase(it);
      continue;
    }
    const Activity next = draw() % 8 == 0 ? Activity::idle : Activity::working;
    const bool known = p.known || draw() % 3 == 0;
    table.update(id, next, known, now);
    p.since = now;
    p.order = ++order;
    p.activity = next;
    p.known = known;
  }
  const auto counts = table.counts();
  EXPECT_EQ(counts.silent + counts.idle + counts.working, plain.size());
  EXPECT_EQ(counts.refused, refused);
}

}  // namespace
}  // namespace flyball::http
