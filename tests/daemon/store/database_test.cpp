// The store gives back what was put in, and neither a damaged file nor another process takes the daemon down.
#include "daemon/store/database.hpp"
#include "daemon/store/state_lock.hpp"

#include <sys/stat.h>
#include <sys/wait.h>

#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <vector>

#include "tests/daemon/store/support.hpp"

namespace flyball::test {
namespace {

using store::Database;
using Access = Database::Access;

constexpr std::int64_t kNow = 1'700'000'000;  // 2023-11-14 22:13:20 UTC

class Store : public StoreDirectory {
 protected:
  void fill() const {
    auto database = open();
    ASSERT_TRUE(database.transaction([&]() -> Result<void> {
      for (int i = 0; i < 1000; ++i)
        if (auto done = note(database, std::to_string(i), std::string(100, 'v')); !done) return done;
      return {};
    }));
  }
  void fill_and_damage() const {
    fill();
    const auto size = std::filesystem::file_size(file());
    ASSERT_GT(size, 65'536U);
    std::fstream damage(file(), std::ios::in | std::ios::out | std::ios::binary);
    damage.seekp(static_cast<std::streamoff>(size / 2));
    damage << std::string(4096, '\xff');
  }
  // Damaged files set aside, in the order of their names, without their -wal and -shm.
  std::vector<std::filesystem::path> damaged_files() const {
    std::vector<std::filesystem::path> out;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      const std::string name = entry.path().filename().string();
      if (name.find(".damaged") != std::string::npos && !name.ends_with("-wal") && !name.ends_with("-shm"))
        out.push_back(entry.path());
    }
    std::ranges::sort(out);
    return out;
  }
};

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
  EXPECT_FALSE(Database::open_for_daemon(file(), kNow));
  EXPECT_TRUE(damaged_files().empty());
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

TEST_F(Store, SetsADamagedFileAside) {
  std::ofstream(file()) << std::string(8192, 'x');
  EXPECT_FALSE(Database::open(file(), Access::read_write));
  auto opened = Database::open_for_daemon(file(), kNow);
  ASSERT_TRUE(opened) << opened.error().message;
  ASSERT_TRUE(opened->set_aside);
  EXPECT_TRUE(note(opened->database, "a", "1"));
  EXPECT_EQ(opened->set_aside->file, file().string() + ".damaged-20231114T221320Z");
  EXPECT_NE(opened->set_aside->why.find("not a database"), std::string::npos) << opened->set_aside->why;
  EXPECT_EQ(std::filesystem::file_size(opened->set_aside->file), 8192U);
}

TEST_F(Store, ADamagedPageIsFoundWhenADaemonStarts) {
  fill_and_damage();
  auto opened = Database::open_for_daemon(file(), kNow);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_TRUE(opened->set_aside);
  EXPECT_EQ(noted(opened->database, "1"), "(absent)");
}

TEST_F(Store, KeepsEveryDamagedFileUnderItsOwnNameAndTheNewestOnly) {
  std::vector<std::filesystem::path> removed;
  for (std::size_t i = 0; i < Database::kKeptDamaged + 2; ++i) {
    std::ofstream(file()) << "damaged " << i << std::string(8192, 'x');
    const auto opened = Database::open_for_daemon(file(), kNow + (i < 2 ? 0 : static_cast<std::int64_t>(i)));
    ASSERT_TRUE(opened && opened->set_aside);
    removed.insert(removed.end(), opened->set_aside->removed.begin(), opened->set_aside->removed.end());
  }
  const std::string first = file().string() + ".damaged-20231114T221320Z";
  EXPECT_EQ(removed, (std::vector<std::filesystem::path>{first, first + "-2"}));
  const auto kept = damaged_files();
  ASSERT_EQ(kept.size(), Database::kKeptDamaged);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    std::string text;
    std::ifstream(kept[i]) >> text >> text;
    EXPECT_EQ(text.substr(0, 1), std::to_string(i + 2)) << kept[i];
  }
}

TEST_F(Store, KeepsTheWalBesideADamagedFile) {
  fill_and_damage();
  const pid_t child = fork();
  if (child == 0) {  // a daemon that was killed leaves what it wrote last in the WAL
    auto database = Database::open(file(), Access::read_write);
    if (!database || !note(*database, "in the WAL", "1")) _exit(1);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto wal_bytes = std::filesystem::file_size(file().string() + "-wal");
  ASSERT_GT(wal_bytes, 0U);
  auto opened = Database::open_for_daemon(file(), kNow);
  ASSERT_TRUE(opened && opened->set_aside);
  EXPECT_EQ(std::filesystem::file_size(opened->set_aside->file.string() + "-wal"), wal_bytes);
  auto salvaged = Database::open(opened->set_aside->file, Access::salvage);
  ASSERT_TRUE(salvaged);
  EXPECT_EQ(noted(*salvaged, "in the WAL"), "1");
  EXPECT_FALSE(note(*salvaged, "more", "1")) << "nothing changes in it";
  EXPECT_EQ(noted(opened->database, "in the WAL"), "(absent)")
      << "nothing of it is replayed into the new file";
}

TEST_F(Store, LeavesADamagedFileWithItsWalWhereTheWalCannotBeRenamed) {
  for (const char* const stuck : {"-wal", "-shm"}) {
    std::filesystem::remove_all(file());
    std::ofstream(file()) << "damaged" << std::string(8192, 'x');
    for (const char* const part : {"-wal", "-shm"}) std::ofstream(file().string() + part) << "part";
    const auto in_the_way = file().string() + ".damaged-20231114T221320Z" + stuck;
    std::filesystem::create_directory(in_the_way);  // a file cannot become a directory
    auto opened = Database::open_for_daemon(file(), kNow);
    ASSERT_FALSE(opened) << stuck;
    EXPECT_NE(opened.error().where.find(stuck), std::string::npos) << opened.error().where;
    EXPECT_TRUE(damaged_files().empty());
    for (const char* const part : {"", "-wal"}) EXPECT_TRUE(std::filesystem::exists(file().string() + part));
    std::filesystem::remove(in_the_way);
  }
  EXPECT_TRUE(Database::open_for_daemon(file(), kNow)->set_aside);
}

// A disk on which, after `good` reads of pages, `bad` reads fail: SQLite's own files, of databases that are
// opened while it lives.
class FailingReads {
 public:
  FailingReads(int good_reads, int bad_reads) {
    good = good_reads;
    bad = bad_reads;
    sqlite3_vfs* const system = sqlite3_vfs_find(nullptr);
    vfs_ = *system;
    vfs_.zName = "failing-reads";
    vfs_.pAppData = system;
    vfs_.szOsFile = static_cast<int>(sizeof(File)) + system->szOsFile;
    vfs_.xOpen = [](sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out) {
      auto* const below = static_cast<sqlite3_vfs*>(vfs->pAppData);
      auto* const own = reinterpret_cast<File*>(file);
      const int opened = below->xOpen(below, name, own->real(), flags, out);
      file->pMethods = nullptr;
      if (opened != SQLITE_OK) return opened;
      const bool fails = (flags & SQLITE_OPEN_MAIN_DB) != 0;
      own->methods = methods(own->real()->pMethods->iVersion, fails);
      file->pMethods = &own->methods;
      return SQLITE_OK;
    };
    sqlite3_vfs_register(&vfs_, 1);
  }
  ~FailingReads() {
    sqlite3_vfs_unregister(&vfs_);
    sqlite3_vfs_register(static_cast<sqlite3_vfs*>(vfs_.pAppData), 1);
  }
  static inline int good = 0, bad = 0;

 private:
  struct File {
    sqlite3_file base;
    sqlite3_io_methods methods;
    sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  };
  static sqlite3_file* real(sqlite3_file* file) { return reinterpret_cast<File*>(file)->real(); }
  static sqlite3_io_methods methods(int version, bool fails) {
    sqlite3_io_methods m{};
    m.iVersion = std::min(version, 2);  // 3 would map the file, past these reads
    m.xClose = [](sqlite3_file* f) { return real(f)->pMethods->xClose(real(f)); };
    m.xRead = [](sqlite3_file* f, void* to, int n, sqlite3_int64 at) {
      return real(f)->pMethods->xRead(real(f), to, n, at);
    };
    if (fails)
      m.xRead = [](sqlite3_file* f, void* to, int n, sqlite3_int64 at) {
        if (n >= 512 && bad > 0 && --good < 0) return --bad, SQLITE_IOERR_READ;
        return real(f)->pMethods->xRead(real(f), to, n, at);
      };
    m.xWrite = [](sqlite3_file* f, const void* from, int n, sqlite3_int64 at) {
      return real(f)->pMethods->xWrite(real(f), from, n, at);
    };
    m.xTruncate = [](sqlite3_file* f, sqlite3_int64 n) { return real(f)->pMethods->xTruncate(real(f), n); };
    m.xSync = [](sqlite3_file* f, int flags) { return real(f)->pMethods->xSync(real(f), flags); };
    m.xFileSize = [](sqlite3_file* f, sqlite3_int64* n) { return real(f)->pMethods->xFileSize(real(f), n); };
    m.xLock = [](sqlite3_file* f, int lock) { return real(f)->pMethods->xLock(real(f), lock); };
    m.xUnlock = [](sqlite3_file* f, int lock) { return real(f)->pMethods->xUnlock(real(f), lock); };
    m.xCheckReservedLock = [](sqlite3_file* f, int* out) {
      return real(f)->pMethods->xCheckReservedLock(real(f), out);
    };
    m.xFileControl = [](sqlite3_file* f, int op, void* arg) {
      return real(f)->pMethods->xFileControl(real(f), op, arg);
    };
    m.xSectorSize = [](sqlite3_file* f) { return real(f)->pMethods->xSectorSize(real(f)); };
    m.xDeviceCharacteristics = [](sqlite3_file* f) {
      return real(f)->pMethods->xDeviceCharacteristics(real(f));
    };
    m.xShmMap = [](sqlite3_file* f, int page, int size, int extend, void volatile** out) {
      return real(f)->pMethods->xShmMap(real(f), page, size, extend, out);
    };
    m.xShmLock = [](sqlite3_file* f, int offset, int n, int flags) {
      return real(f)->pMethods->xShmLock(real(f), offset, n, flags);
    };
    m.xShmBarrier = [](sqlite3_file* f) { real(f)->pMethods->xShmBarrier(real(f)); };
    m.xShmUnmap = [](sqlite3_file* f, int deletes) { return real(f)->pMethods->xShmUnmap(real(f), deletes); };
    return m;
  }
  sqlite3_vfs vfs_{};
};

// Reads fail of the first page, of the schema, and of pages of the check, which quick_check calls
// faults of the page.
TEST_F(Store, APassingReadErrorLosesNothing) {
  fill();
  for (int good = 0; good < 32; ++good) {
    const FailingReads disk(good, 1);
    auto opened = Database::open_for_daemon(file(), kNow);
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(FailingReads::bad, 0) << "no read failed after " << good;
    EXPECT_FALSE(opened->set_aside) << opened->set_aside->why;
    EXPECT_EQ(noted(opened->database, "1"), std::string(100, 'v'));
  }
  EXPECT_TRUE(damaged_files().empty());
}

TEST_F(Store, ALastingReadErrorLeavesTheFileWhereItIs) {
  fill();
  for (const int good : {0, 16}) {
    const FailingReads disk(good, 1'000'000);
    const auto before = std::chrono::steady_clock::now();
    EXPECT_FALSE(Database::open_for_daemon(file(), kNow));
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(60));
  }
  EXPECT_TRUE(damaged_files().empty());
  auto opened = Database::open_for_daemon(file(), kNow);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(noted(opened->database, "1"), std::string(100, 'v'));
}

TEST_F(Store, OneDaemonHasTheStateDirectory) {
  const std::filesystem::path folder = file().parent_path();
  EXPECT_EQ(store::running_daemon(folder), std::nullopt);
  {
    const auto first = store::lock_state(folder);
    ASSERT_TRUE(first) << first.error().error.message;
    const auto database = Database::open_for_daemon(file(), kNow);
    ASSERT_TRUE(database);
    const auto second = store::lock_state(folder);
    ASSERT_FALSE(second);
    EXPECT_TRUE(second.error().in_use);
    EXPECT_NE(second.error().error.message.find("(process " + std::to_string(getpid()) + ")"),
              std::string::npos)
        << second.error().error.message;
    EXPECT_EQ(store::running_daemon(folder), "process " + std::to_string(getpid()));
    ASSERT_TRUE(std::filesystem::remove(folder / "flyball.pid"));
    EXPECT_TRUE(store::lock_state(folder).error().in_use) << "the directory is the lock";
    EXPECT_TRUE(Database::open(file(), Access::read_only));  // tools may look
  }
  EXPECT_EQ(store::running_daemon(folder), std::nullopt) << "the lock ends with its holder";
  EXPECT_TRUE(store::lock_state(folder));
  const auto nowhere = store::lock_state(folder / "absent");
  ASSERT_FALSE(nowhere);
  EXPECT_FALSE(nowhere.error().in_use);
  EXPECT_NE(nowhere.error().error.message.find("No such file"), std::string::npos)
      << nowhere.error().error.message;
}

// A tool of a newer version would change the tables under a daemon that goes by the older ones.
TEST_F(Store, AToolLeavesTheSchemaOfARunningDaemonAlone) {
  {
    auto database = open();
    ASSERT_TRUE(database.run("PRAGMA user_version = 1"));
  }
  const auto lock = store::lock_state(file().parent_path());
  ASSERT_TRUE(lock);
  const auto tool = Database::open(file(), Access::read_write);
  ASSERT_FALSE(tool);
  EXPECT_NE(tool.error().message.find("restart that daemon"), std::string::npos) << tool.error().message;
  EXPECT_NE(tool.error().message.find(std::to_string(getpid())), std::string::npos) << tool.error().message;
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
