#include "config/file_lock.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "tests/harness/temp_dir.hpp"

namespace flyball::config {
namespace {

using Mode = FileLock::Mode;

class FileLockTest : public testing::Test {
 protected:
  FileLock open() const {
    auto lock = FileLock::open(file());
    EXPECT_TRUE(lock) << lock.error().message;
    return std::move(*lock);
  }
  std::filesystem::path file() const { return folder_.path() / "lock"; }

  test::TempDir folder_;
};

TEST_F(FileLockTest, ExcludesOthersUntilItsHolderIsGone) {
  FileLock second = open();
  {
    FileLock first = open();
    ASSERT_TRUE(first.try_take(Mode::alone));
    EXPECT_FALSE(second.try_take(Mode::alone));
    EXPECT_FALSE(second.try_take(Mode::shared));
  }
  EXPECT_TRUE(second.try_take(Mode::alone));
}

TEST_F(FileLockTest, IsSharedByManyAndAloneWithNone) {
  FileLock first = open(), second = open();
  ASSERT_TRUE(first.try_take(Mode::shared));
  ASSERT_TRUE(second.try_take(Mode::shared));
  EXPECT_FALSE(first.try_take(Mode::alone));
  second.give_up();
  EXPECT_TRUE(first.try_take(Mode::alone));
}

TEST_F(FileLockTest, SaysWhyAFileCannotBeLocked) {
  FileLock none;
  EXPECT_FALSE(none.try_take(Mode::alone));
  EXPECT_EQ(errno, EBADF);
  FileLock first = open(), second = open();
  ASSERT_TRUE(first.try_take(Mode::alone));
  EXPECT_FALSE(second.try_take(Mode::alone));
  EXPECT_EQ(errno, EWOULDBLOCK);
}

TEST_F(FileLockTest, NamesWhoSigned) {
  EXPECT_EQ(signer(file()), "a process of unknown id");
  sign(file());
  EXPECT_EQ(signer(file()), "process " + std::to_string(getpid()));
  std::ofstream(file(), std::ios::trunc) << 0x7FFFFFFF;
  EXPECT_EQ(signer(file()), "a process of unknown id") << "it has ended";
  std::ofstream(file(), std::ios::trunc) << "no number";
  EXPECT_EQ(signer(file()), "a process of unknown id");
  std::filesystem::remove(file());
  ASSERT_EQ(mkfifo(file().c_str(), 0600), 0);
  sign(file());  // waits for no reader
}

TEST_F(FileLockTest, FollowsNoLinkAndNamesTheFile) {
  std::filesystem::create_symlink(folder_.path() / "elsewhere", file());
  const auto lock = FileLock::open(file());
  ASSERT_FALSE(lock);
  EXPECT_EQ(lock.error().code, ErrorCode::io_error);
  EXPECT_EQ(lock.error().where, file().string());
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "elsewhere"));
}

}  // namespace
}  // namespace flyball::config
