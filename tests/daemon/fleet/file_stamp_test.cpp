// Stamps of a model's files: what is loaded anew, and what is not.
#include "daemon/fleet/file_stamp.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/harness/temp_dir.hpp"

namespace flyball::fleet {
namespace {

namespace fs = std::filesystem;

class FileStamp : public testing::Test {
 protected:
  void write(const char* name, const std::string& text) const { std::ofstream(dir_.path() / name) << text; }
  test::TempDir dir_;
};

TEST_F(FileStamp, OfAFile) {
  const auto path = dir_.path() / "a";
  EXPECT_EQ(file_stamp(path), 0U);
  EXPECT_EQ(file_stamp(""), 0U);
  write("a", "1");
  const auto one = file_stamp(path);
  EXPECT_NE(one, 0U);
  EXPECT_EQ(file_stamp(path), one);
  const auto time = fs::last_write_time(path);
  write("a", "22");
  fs::last_write_time(path, time);
  const auto longer = file_stamp(path);
  EXPECT_NE(longer, one);
  fs::last_write_time(path, time + std::chrono::seconds(1));
  EXPECT_NE(file_stamp(path), longer);
  fs::last_write_time(path, fs::file_time_type::max());  // centuries from now, where the file system keeps it
  EXPECT_NE(file_stamp(path), longer);
}

TEST_F(FileStamp, OfAShardCountsItsSiblings) {
  const auto first = dir_.path() / "m-00001-of-00002.gguf";
  write("m-00002-of-00002.gguf", "2");
  EXPECT_EQ(file_stamp(first), 0U);
  write("m-00001-of-00002.gguf", "1");
  const auto both = file_stamp(first);
  write("other.gguf", "3");
  EXPECT_EQ(file_stamp(first), both);
  write("m-00002-of-00002.gguf", "22");
  EXPECT_NE(file_stamp(first), both);
}

// Two files of one size that take each other's place are other files, whatever the times say.
TEST_F(FileStamp, OfADirectoryTellsItsFilesApart) {
  write("a", "1");
  write("b", "2");
  const auto time = fs::last_write_time(dir_.path() / "a");
  fs::last_write_time(dir_.path() / "b", time);
  fs::last_write_time(dir_.path(), time);
  const auto before = file_stamp(dir_.path());
  fs::rename(dir_.path() / "a", dir_.path() / "c");
  fs::rename(dir_.path() / "b", dir_.path() / "a");
  fs::rename(dir_.path() / "c", dir_.path() / "b");
  fs::last_write_time(dir_.path(), time);
  const auto swapped = file_stamp(dir_.path());
  EXPECT_NE(swapped, before);
  write("a", "3");
  fs::last_write_time(dir_.path() / "a", time - std::chrono::hours(1));
  EXPECT_NE(file_stamp(dir_.path()), swapped);
}

}  // namespace
}  // namespace flyball::fleet
