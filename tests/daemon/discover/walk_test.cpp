#include "daemon/discover/walk.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cerrno>

#include "tests/daemon/discover/folder.hpp"

namespace flyball::discover {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

bool is_model(std::string_view name) {
  return name.ends_with(".gguf");
}

using Seen = std::vector<std::string>;  // names relative to the root
Seen names_below(const std::filesystem::path& root, WalkEnd& end, const WalkLimits& limits = {}) {
  Seen out;
  end = walk(root, limits, is_model,
             [&](const std::filesystem::path& folder, const std::vector<std::string>& names) {
               for (const std::string& name : names)
                 out.push_back((folder / name).lexically_relative(root).string());
             });
  return out;
}

TEST(Walk, FindsWantedNamesOuterFoldersFirst) {
  const Folder folder;
  for (const char* const name : {"b/c/3.gguf", "2.gguf", "1.gguf", "b/2.gguf", "b/readme.md"})
    folder.write(name);
  WalkEnd end;
  EXPECT_THAT(names_below(folder.root(), end), ElementsAre("1.gguf", "2.gguf", "b/2.gguf", "b/c/3.gguf"));
  EXPECT_EQ(end.cut, "");
  EXPECT_EQ(end.entries, 7U);
  EXPECT_THAT(names_below(folder.root() / "absent", end), IsEmpty());
  EXPECT_THAT(end.closed, IsEmpty());
}

TEST(Walk, EntersFoldersBehindLinksOnceWhateverCirclesTheyMake) {
  const Folder folder;
  folder.write("real/1.gguf");
  folder.link("real/up", "..");
  folder.link("real/self", "self");
  folder.link("again", "real");
  folder.link("file.gguf", "real/1.gguf");
  folder.link("gone.gguf", "nothing");
  WalkEnd end;
  const Seen seen = names_below(folder.root(), end);
  // The real folder is entered by one of its names.
  EXPECT_EQ(seen.size(), 3U) << testing::PrintToString(seen);
  EXPECT_THAT(seen, testing::Contains("file.gguf"));
  EXPECT_THAT(seen, testing::Contains("gone.gguf"));
  EXPECT_EQ(end.cut, "");
}

TEST(Walk, EndsAtEachLimitAndSaysSo) {
  const Folder folder;
  for (int i = 0; i < 40; ++i) folder.write("many/" + std::to_string(i) + ".gguf");
  folder.write("a/b/c/d/deep.gguf");
  WalkEnd end;
  EXPECT_LE(names_below(folder.root(), end, {.entries = 10}).size(), 10U);
  EXPECT_EQ(end.cut, "more than 10 files and folders");
  EXPECT_EQ(names_below(folder.root(), end, {.wanted = 5}).size(), 5U);
  EXPECT_EQ(end.cut, "more than 5 model files");
  EXPECT_THAT(names_below(folder.root(), end, {.depth = 3}),
              testing::Not(testing::Contains(HasSubstr("deep"))));
  EXPECT_EQ(end.cut, "folders more than 3 deep");
}

TEST(Walk, ReadsAFolderOfManyNamesAndKeepsTheWantedAlone) {
  const Folder folder;
  folder.write("0.gguf");
  // Links cost less than files; a file has at most 65,000. A million files were walked by hand: 0.9 s.
  for (int i = 1; i < 60'000; ++i)
    ASSERT_EQ(::link((folder.root() / "0.gguf").c_str(), (folder.root() / std::to_string(i)).c_str()), 0);
  WalkEnd end;
  EXPECT_THAT(names_below(folder.root(), end), ElementsAre("0.gguf"));
  EXPECT_EQ(end.entries, 60'000U);
  EXPECT_EQ(end.cut, "");
}

TEST(Walk, LeavesOutFileSystemsOfTheKernel) {
  WalkEnd end;
  EXPECT_THAT(names_below("/proc", end), IsEmpty());
  EXPECT_EQ(end.entries, 0U);
}

TEST(Walk, NamesFoldersThatItMayNotRead) {
  if (::geteuid() == 0) GTEST_SKIP() << "SKIPPED: root may read every folder";
  const Folder folder;
  folder.write("closed/1.gguf");
  std::filesystem::permissions(folder.root() / "closed", std::filesystem::perms::none);
  WalkEnd end;
  EXPECT_THAT(names_below(folder.root(), end), IsEmpty());
  ASSERT_EQ(end.closed.size(), 1U);
  EXPECT_EQ(end.closed[0].folder, folder.root() / "closed");
  EXPECT_EQ(end.closed[0].error, EACCES);
  std::filesystem::permissions(folder.root() / "closed", std::filesystem::perms::owner_all);
}

}  // namespace
}  // namespace flyball::discover
