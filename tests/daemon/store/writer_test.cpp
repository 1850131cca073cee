// The writer's thread writes all that it took, in order, and a bad or slow disk holds nobody up.
#include "daemon/store/writer.hpp"

#include <atomic>
#include <future>
#include <vector>

#include "tests/daemon/store/support.hpp"

namespace flyball::test {
namespace {

using store::Database;
using store::Writer;

class StoreWriter : public StoreDirectory {};

TEST_F(StoreWriter, WritesInOrderAndBeforeItEnds) {
  {
    Writer writer(open());
    for (int i = 0; i < 100; ++i)
      ASSERT_TRUE(writer.post([i](Database& database) {
        return database.run("INSERT INTO about VALUES ('n', ?) ON CONFLICT DO UPDATE SET value = value || ?",
                            {std::to_string(i), " " + std::to_string(i)});
      }));
  }
  auto database = open();
  std::string expected = "0";
  for (int i = 1; i < 100; ++i) expected += " " + std::to_string(i);
  EXPECT_EQ(noted(database, "n"), expected);
}

TEST_F(StoreWriter, FlushReturnsWhenItIsOnTheDisk) {
  Writer writer(open());
  auto reader = open(Database::Access::read_only);
  for (int i = 0; i < 10; ++i) {
    const std::string key = std::to_string(i);
    ASSERT_TRUE(writer.post([key](Database& database) { return note(database, key, "1"); }));
    writer.flush();
    EXPECT_EQ(noted(reader, key), "1");
  }
  EXPECT_EQ(writer.health().written, 10U);
}

TEST_F(StoreWriter, OneThatFailsTakesNoneBesideItAlong) {
  Writer writer(open());
  std::promise<void> all_posted;
  // The first holds the thread up, so that the others make one transaction.
  ASSERT_TRUE(writer.post([wait = all_posted.get_future().share()](Database&) -> Result<void> {
    wait.wait();
    return {};
  }));
  std::vector<bool> told;  // the writer's thread's until flush()
  for (const char* key : {"a", "a", "b"})
    ASSERT_TRUE(writer.post([key](Database& database) { return note(database, key, "1"); },
                            [&](bool written) { told.push_back(written); }));
  all_posted.set_value();
  writer.flush();
  const Writer::Health health = writer.health();
  EXPECT_EQ(health.written, 3U);
  EXPECT_EQ(health.failed, 1U);
  EXPECT_EQ(told, (std::vector<bool>{true, false, true}));
  EXPECT_NE(health.last_error.find("UNIQUE"), std::string::npos) << health.last_error;
  auto reader = open(Database::Access::read_only);
  EXPECT_EQ(noted(reader, "a"), "1");
  EXPECT_EQ(noted(reader, "b"), "1");
}

// Another program may hold the file's write lock for as long as it likes.
TEST_F(StoreWriter, LooksAndSaysSoWhileNothingCanBeWritten) {
  auto other = open();
  ASSERT_TRUE(note(other, "there", "1"));
  Writer writer(open());
  std::promise<bool> written;
  std::promise<std::string> seen;
  ASSERT_TRUE(other.run("BEGIN IMMEDIATE"));
  ASSERT_TRUE(writer.post([](Database& database) { return note(database, "mine", "1"); },
                          [&](bool ok) { written.set_value(ok); }));
  ASSERT_TRUE(writer.look([&](Database& database) { seen.set_value(noted(database, "there")); }));
  EXPECT_FALSE(written.get_future().get());
  EXPECT_EQ(seen.get_future().get(), "1");
  writer.flush();
  EXPECT_EQ(writer.health().failed, 1U);
  EXPECT_NE(writer.health().last_error.find("locked"), std::string::npos) << writer.health().last_error;
  ASSERT_TRUE(other.run("COMMIT"));
  std::promise<bool> again;
  ASSERT_TRUE(writer.post([](Database& database) { return note(database, "mine", "1"); },
                          [&](bool ok) { again.set_value(ok); }));
  EXPECT_TRUE(again.get_future().get());
  EXPECT_EQ(noted(other, "mine"), "1");
}

TEST_F(StoreWriter, LooksTakeNoPlaceFromJobs) {
  Writer writer(open());
  std::promise<void> go, began;
  ASSERT_TRUE(writer.post([&, wait = go.get_future().share()](Database&) -> Result<void> {
    began.set_value();
    wait.wait();
    return {};
  }));
  began.get_future().wait();
  std::atomic<std::size_t> looked = 0;
  const auto look = [&](Database&) { ++looked; };
  for (std::size_t i = 0; i < Writer::kMaxLooks; ++i) ASSERT_TRUE(writer.look(look));
  EXPECT_FALSE(writer.look(look));
  EXPECT_TRUE(writer.post([](Database& database) { return note(database, "a", "1"); }));
  go.set_value();
  writer.flush();
  EXPECT_EQ(looked, Writer::kMaxLooks);
  EXPECT_EQ(writer.health().written, 2U);
}

TEST_F(StoreWriter, DropsWhatItCannotHold) {
  Writer writer(open());
  std::promise<void> go, began;
  ASSERT_TRUE(writer.post([&, wait = go.get_future().share()](Database&) -> Result<void> {
    began.set_value();
    wait.wait();
    return {};
  }));
  began.get_future().wait();
  std::atomic<int> ran = 0;
  const auto count = [&](Database&) -> Result<void> {
    ++ran;
    return {};
  };
  for (std::size_t i = 0; i < Writer::kMaxQueued; ++i) ASSERT_TRUE(writer.post(count));
  EXPECT_FALSE(writer.post(count));
  go.set_value();
  writer.flush();
  EXPECT_EQ(ran, static_cast<int>(Writer::kMaxQueued));
  EXPECT_EQ(writer.health().dropped, 1U);
  EXPECT_TRUE(writer.post(count));  // there is room again
}

}  // namespace
}  // namespace flyball::test
