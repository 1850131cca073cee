// The usage journal's way to the store and back, by the thread that writes it.
#include "daemon/usage/usage_store.hpp"

#include <algorithm>
#include <ctime>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <boost/asio/io_context.hpp>

#include "daemon/usage/journal.hpp"
#include "tests/daemon/store/support.hpp"

namespace flyball::usage {
namespace {

using UsageStore = test::StoreDirectory;

DayUsage some() {
  DayUsage u;
  std::uint64_t n = 1;
  for (std::uint64_t* field :
       {&u.requests, &u.refused, &u.errors, &u.cancelled, &u.prompt_tokens, &u.cached_tokens,
        &u.generated_tokens, &u.guessed_tokens, &u.streamed, &u.with_tools})
    *field = n++;
  u.prompt_lengths.add(10);
  u.cached_lengths.add(20);
  u.answer_lengths.add(30);
  u.open_at_arrival.add(4);
  return u;
}

TEST_F(UsageStore, RowsComeBackAsTheyWere) {
  auto database = open();
  ASSERT_TRUE(write(database, {{"a", 10, some()}, {"b", 11, some()}, {"a", 12, {}}}));
  DayUsage more = some();
  more.requests = 77;
  ASSERT_TRUE(write(database, {{"a", 10, more}})) << "replaces the row";
  const auto all = read(database, 10);
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->size(), 3U);
  EXPECT_EQ(all->at(0).usage.requests, 77U);
  EXPECT_EQ(all->at(1).day, 12);
  const DayUsage& b = all->at(2).usage;
  EXPECT_EQ(b.requests, 1U);
  EXPECT_EQ(b.refused, 2U);
  EXPECT_EQ(b.errors, 3U);
  EXPECT_EQ(b.cancelled, 4U);
  EXPECT_EQ(b.charged_tokens(), 5U + 7 + 8);
  EXPECT_EQ(b.cached_tokens, 6U);
  EXPECT_EQ(b.streamed, 9U);
  EXPECT_EQ(b.with_tools, 10U);
  EXPECT_EQ(b.prompt_lengths.text(), some().prompt_lengths.text());
  EXPECT_EQ(b.cached_lengths.text(), some().cached_lengths.text());
  EXPECT_EQ(b.answer_lengths.text(), some().answer_lengths.text());
  EXPECT_EQ(b.open_at_arrival.text(), some().open_at_arrival.text());
  EXPECT_EQ(read(database, 11)->size(), 2U);
  EXPECT_EQ(read(database, 0, "a")->size(), 2U);
}

TEST_F(UsageStore, TheLatestDaysByCountWhateverTheClockSays) {
  auto database = open();
  for (const std::int64_t day : {3, 4, 5, 99'000})
    ASSERT_TRUE(write(database, {{"a", day, some()}, {"b", day, some()}}));
  const auto latest = read_latest(database, 3);
  ASSERT_TRUE(latest) << latest.error().message;
  ASSERT_EQ(latest->size(), 6U);
  EXPECT_EQ(latest->front().day, 4)
      << "what a clock far ahead wrote takes one day's place, and a clock far ahead none";
  EXPECT_EQ(latest->back().day, 99'000);
  EXPECT_EQ(read_latest(database, 9)->size(), 8U);
}

TEST_F(UsageStore, LostDaysComeBackUntilTheyAreOld) {
  auto database = open();
  ASSERT_TRUE(write_lost(database, {{"a", 100}, {"b", 100}, {"b", 100}}, 100));
  EXPECT_EQ(*read_lost(database), (LostDays{{"a", 100}, {"b", 100}}));
  ASSERT_TRUE(write_lost(database, {{"a", 101 + DailyUsage::kKeptDays}}, 101 + DailyUsage::kKeptDays));
  EXPECT_EQ(*read_lost(database), (LostDays{{"a", 101 + DailyUsage::kKeptDays}}));
}

TEST_F(UsageStore, TheJournalStoresWithinItsDelayAndAtItsEnd) {
  const std::int64_t today = std::time(nullptr) / 86'400;
  boost::asio::io_context io;
  store::Writer writer(open());
  Journal journal(io, &writer, Past{{{"a", today, some()}}, {}});
  journal.change("a", today).requests += 1;
  journal.change("a", today).requests += 1;
  EXPECT_GE(io.run(), 2U) << "one look to write what came together, one whether it is written, and then none";
  writer.flush();
  {
    auto beside = open(store::Database::Access::read_only);
    EXPECT_EQ(read(beside, today)->at(0).usage.requests, 3U);
  }
  {
    Journal ends(io, &writer, {});
    ends.change("z", today).requests = 9;
  }
  writer.flush();
  auto beside = open(store::Database::Access::read_only);
  EXPECT_EQ(read(beside, today, "z")->at(0).usage.requests, 9U);
}

// What is logged while it lives.
struct Log {
  std::ostringstream text;
  std::shared_ptr<spdlog::logger> before = spdlog::default_logger();
  Log() {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
  }
  ~Log() { spdlog::set_default_logger(before); }
};

// Nothing changes any more once the disk has room again, and the row is written all the same.
TEST_F(UsageStore, WhatCouldNotBeWrittenIsWrittenLater) {
  const std::int64_t today = std::time(nullptr) / 86'400;
  auto other = open();
  boost::asio::io_context io;
  Log log;
  store::Writer writer(open());
  Journal journal(io, &writer, {});
  ASSERT_TRUE(other.run("ALTER TABLE usage RENAME TO lost"));
  journal.change("a", today).requests = 3;
  for (int failures = 1; failures <= 2; ++failures) {
    while (writer.health().failed < static_cast<std::uint64_t>(failures)) {
      ASSERT_EQ(io.run_one(), 1U) << "it tries again";
      writer.flush();
    }
  }
  const std::string warning = log.text.str();
  const auto first = warning.find("cannot be written");
  EXPECT_NE(warning.find("no such table: usage"), std::string::npos) << warning;
  EXPECT_EQ(warning.find("cannot be written", first + 1), std::string::npos) << "one a minute: " << warning;
  ASSERT_TRUE(other.run("ALTER TABLE lost RENAME TO usage"));
  io.run();
  EXPECT_EQ(read(other, today)->at(0).usage.requests, 3U);
}

TEST_F(UsageStore, WithoutAStoreItOnlyRemembers) {
  const std::int64_t today = std::time(nullptr) / 86'400;
  boost::asio::io_context io;
  Journal journal(io, nullptr, {});
  journal.change("a", today).requests = 2;
  io.run();
  const DayUsage* used = journal.usage().find("a", today);
  ASSERT_NE(used, nullptr);
  EXPECT_EQ(used->requests, 2U);
}

// A file with 300 apps' usage of one day beside 1,000 rows of another table, and pages of it that are
// damaged.
class Salvage : public test::StoreDirectory {
 protected:
  static constexpr std::int64_t kToday = 20'000;
  static constexpr std::size_t kApps = 300, kPage = 4096;

  void SetUp() override {
    StoreDirectory::SetUp();
    auto database = open();
    std::vector<AppDay> rows;
    for (std::size_t i = 0; i < kApps; ++i) {
      apps_.push_back("app-" + std::to_string(1000 + i));
      rows.push_back({apps_.back(), kToday, some()});
    }
    ASSERT_TRUE(database.transaction([&]() -> Result<void> {
      for (int i = 0; i < 1000; ++i)
        if (auto done = test::note(database, "note-" + std::to_string(i), std::string(100, 'v')); !done)
          return done;
      return write(database, rows);
    }));
  }

  // The leaf page of an index tree that holds the text.
  void damage(const std::string& text) const {
    std::fstream stream(file(), std::ios::in | std::ios::out | std::ios::binary);
    std::string page(kPage, '\0');
    for (std::streamoff at = 0; stream.seekg(at) && stream.read(page.data(), kPage); at += kPage) {
      if (page[0] != '\x0a' || page.find(text) == std::string::npos) continue;
      stream.seekp(at);
      stream << std::string(kPage, '\xff');
      return;
    }
    FAIL() << "no leaf holds " << text;
  }
  Past salvaged() const {
    auto damaged = open(store::Database::Access::salvage);
    return salvage(damaged, apps_, kToday);
  }

  std::vector<std::string> apps_;
};

TEST_F(Salvage, HasEveryRowWhereAnotherTableIsDamaged) {
  damage("note-500");
  const Past past = salvaged();
  EXPECT_EQ(past.days.size(), kApps);
  EXPECT_TRUE(past.lost.empty());
  EXPECT_EQ(past.days[7].usage.charged_tokens(), some().charged_tokens());
  EXPECT_EQ(past.days[7].usage.prompt_lengths.text(), some().prompt_lengths.text());
}

TEST_F(Salvage, LosesTheRowsOfADamagedPageAloneAndSaysWhose) {
  damage("app-1150");
  const Past past = salvaged();
  EXPECT_EQ(past.days.size() + past.lost.size(), kApps);
  EXPECT_LT(past.lost.size(), 100U);
  EXPECT_NE(std::ranges::find(past.lost, std::pair(std::string("app-1150"), kToday)), past.lost.end());
  EXPECT_EQ(past.days.front().app, "app-1000");
  EXPECT_EQ(past.days.back().app, "app-1299");
}

TEST_F(Salvage, HasTheRowsBetweenTwoDamagedPages) {
  damage("app-1050");
  damage("app-1250");
  const Past past = salvaged();
  EXPECT_EQ(past.days.size() + past.lost.size(), kApps);
  EXPECT_EQ(std::ranges::count(past.days, std::string("app-1150"), &AppDay::app), 1);
}

TEST_F(Salvage, KeepsWhatTheFileCallsLost) {
  {
    auto database = open();
    ASSERT_TRUE(write_lost(database, {{"app-1001", kToday}, {"no-app", kToday}}, kToday));
  }
  damage("note-500");
  EXPECT_EQ(salvaged().lost, (LostDays{{"app-1001", kToday}}));
  damage("no-app");
  EXPECT_EQ(salvaged().lost.size(), kApps) << "what was lost before is lost itself";
}

TEST_F(Salvage, CallsNothingLostOfAnOlderFile) {
  {
    auto database = open();
    ASSERT_TRUE(database.run("DROP TABLE lost_usage"));
  }
  damage("note-500");
  EXPECT_TRUE(salvaged().lost.empty());
}

TEST_F(Salvage, KnowsNothingOfAFileThatIsNoDatabase) {
  std::ofstream(file()) << std::string(8192, 'x');
  const Past past = salvaged();
  EXPECT_TRUE(past.days.empty());
  EXPECT_EQ(past.lost.size(), kApps);
}

}  // namespace
}  // namespace flyball::usage
