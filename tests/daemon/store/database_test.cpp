// The store gives back what was put in, and neither a damaged file nor another process takes the daemon down.
#include "daemon/store/database.hpp"

#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>

#include "tests/daemon/store/support.hpp"

namespace flyball::test {
namespace {

using store::Database;
using Access = Database::Access;

class Store : public StoreDirectory {};

TEST_F(Store, KeepsValuesOfEveryType) {
  {
    auto database = open();
    ASSERT_TRUE(database.run("CREATE TABLE all_types (i, r, t, n)"));
    ASSERT_TRUE(database.run("INSERT INTO all_types VALUES (?, ?, ?, ?)",
                             {std::int64_t{-7}, 2.5, std::string("a\0b", 3), std::monostate{}}));
  }
  auto again = open(Access::read_only);
  int rows = 0;
  ASSERT_TRUE(again.query("SELECT i, r, t, n, i FROM all_types", {}, [&](store::Row row) {
    ++rows;
    EXPECT_EQ(store::integer(row[0]), -7);
    EXPECT_EQ(store::number(row[1]), 2.5);
    EXPECT_EQ(store::text(row[2]), std::string("a\0b", 3));
    EXPECT_TRUE(std::holds_alternative<std::monostate>(row[3]));
    EXPECT_EQ(store::number(row[4]), -7.0);
    // Of another type: the value's zero.
    EXPECT_EQ(store::integer(row[2]), 0);
    EXPECT_EQ(store::text(row[0]), "");
    return true;
  }));
  EXPECT_EQ(rows, 1);
}

TEST_F(Store, StopsReadingWhenToldTo) {
  auto database = open();
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(note(database, key, "1"));
  int rows = 0;
  const auto two = [&](store::Row) { return ++rows < 2; };
  ASSERT_TRUE(database.query("SELECT key FROM about", {}, two));
  EXPECT_EQ(rows, 2);
  // The statement left half-way can be run again, and nothing is locked.
  rows = 0;
  ASSERT_TRUE(database.query("SELECT key FROM about", {}, two));
  EXPECT_EQ(rows, 2);
  EXPECT_TRUE(note(database, "d", "1"));
}

TEST_F(Store, TakesBackAllOfATransactionThatFails) {
  auto database = open();
  ASSERT_TRUE(note(database, "before", "1"));
  const auto failed = database.transaction([&]() -> Result<void> {
    if (auto done = note(database, "within", "1"); !done) return done;
    return note(database, "before", "again");  // its key is taken
  });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::io_error);
  EXPECT_NE(failed.error().message.find("UNIQUE"), std::string::npos) << failed.error().message;
  EXPECT_EQ(failed.error().where, file().string());
  EXPECT_EQ(noted(database, "within"), "(absent)");
  EXPECT_EQ(noted(database, "before"), "1");
  EXPECT_TRUE(database.transaction([&] { return note(database, "after", "1"); }));
}

TEST_F(Store, IsForThisUserAlone) {
  const auto database = open();
  struct stat s {};
  ASSERT_EQ(stat(file().c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777U, 0600U);
}

TEST_F(Store, RefusesASchemaItDoesNotKnow) {
  {
    auto database = open();
    ASSERT_TRUE(database.run("PRAGMA user_version = 1000"));
  }
  for (const Access access : {Access::read_write, Access::read_only}) {
    const auto newer = Database::open(file(), access);
    ASSERT_FALSE(newer);
    EXPECT_NE(newer.error().message.find("version 1000"), std::string::npos) << newer.error().message;
  }
  // It is not damaged: a downgrade must not lose it.
  bool moved = false;
  EXPECT_FALSE(Database::open_for_daemon(file(), moved));
  EXPECT_FALSE(moved);
}

TEST_F(Store, ReadOnlyNeitherMakesNorChangesAFile) {
  EXPECT_FALSE(Database::open(file(), Access::read_only));
  EXPECT_FALSE(std::filesystem::exists(file()));
  {
    auto database = open();
    ASSERT_TRUE(note(database, "a", "1"));
  }
  auto reader = open(Access::read_only);
  EXPECT_FALSE(note(reader, "b", "1"));
  EXPECT_EQ(noted(reader, "a"), "1");
}

TEST_F(Store, IsReadWhileItIsWritten) {
  auto writer = open();
  ASSERT_TRUE(note(writer, "a", "1"));
  auto reader = open(Access::read_only);
  ASSERT_TRUE(writer.transaction([&] {
    auto done = note(writer, "b", "1");
    EXPECT_EQ(noted(reader, "a"), "1");
    EXPECT_EQ(noted(reader, "b"), "(absent)");
    return done;
  }));
  EXPECT_EQ(noted(reader, "b"), "1");
}

TEST_F(Store, ADamagedFileIsMovedAside) {
  std::ofstream(file()) << std::string(8192, 'x');
  EXPECT_FALSE(Database::open(file(), Access::read_write));
  bool moved = false;
  auto database = Database::open_for_daemon(file(), moved);
  ASSERT_TRUE(database) << database.error().message;
  EXPECT_TRUE(moved);
  EXPECT_TRUE(note(*database, "a", "1"));
  EXPECT_EQ(std::filesystem::file_size(file().string() + ".damaged"), 8192U);
}

TEST_F(Store, ADamagedPageIsFoundWhenADaemonStarts) {
  {
    auto database = open();
    ASSERT_TRUE(database.transaction([&]() -> Result<void> {
      for (int i = 0; i < 1000; ++i)
        if (auto done = note(database, std::to_string(i), std::string(100, 'v')); !done) return done;
      return {};
    }));
  }
  const auto size = std::filesystem::file_size(file());
  ASSERT_GT(size, 65'536U);
  {
    std::fstream damage(file(), std::ios::in | std::ios::out | std::ios::binary);
    damage.seekp(static_cast<std::streamoff>(size / 2));
    damage << std::string(4096, '\xff');
  }
  bool moved = false;
  auto database = Database::open_for_daemon(file(), moved);
  ASSERT_TRUE(database) << database.error().message;
  EXPECT_TRUE(moved);
  EXPECT_EQ(noted(*database, "1"), "(absent)");
}

TEST_F(Store, OneDaemonHoldsIt) {
  bool moved = false;
  {
    const auto first = Database::open_for_daemon(file(), moved);
    ASSERT_TRUE(first);
    const auto second = Database::open_for_daemon(file(), moved);
    ASSERT_FALSE(second);
    EXPECT_NE(second.error().message.find("Another daemon"), std::string::npos);
    EXPECT_TRUE(Database::open(file(), Access::read_only));  // tools may look
  }
  EXPECT_TRUE(Database::open_for_daemon(file(), moved));
}

TEST_F(Store, WhatWasCommittedSurvivesAKill) {
  { const auto made = open(); }
  const pid_t child = fork();
  if (child == 0) {
    auto database = Database::open(file(), Access::read_write);
    if (!database || !note(*database, "kept", "1") || !database->run("BEGIN IMMEDIATE") ||
        !note(*database, "half", "1"))
      _exit(1);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  auto database = open();
  EXPECT_EQ(noted(database, "kept"), "1");
  EXPECT_EQ(noted(database, "half"), "(absent)");
  EXPECT_TRUE(note(database, "after", "1"));  // the dead one's lock is gone
}

TEST_F(Store, SaysWhyAFileCannotBeMade) {
  const auto missing = Database::open(directory_ / "absent" / "flyball.db", Access::read_write);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "No such file or directory.");
  EXPECT_EQ(missing.error().where, (directory_ / "absent" / "flyball.db").string());
}

}  // namespace
}  // namespace flyball::test
