#include "daemon/discover/reach.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/daemon/discover/folder.hpp"

namespace flyball::discover {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uid_t kMe = 1000, kService = 900;
constexpr gid_t kMyGroup = 1000, kShared = 50;

std::vector<PathStep> way(mode_t home, mode_t file) {
  return {{"/", 0755, 0, 0, false, true},
          {"/home/me", home, kMe, kMyGroup, false, true},
          {"/home/me/a.gguf", file, kMe, kShared, false, false}};
}

TEST(Reach, NamesTheFoldersAndFilesThatKeepAReaderOut) {
  const Reader service{"flyball", kService, {kService}};
  EXPECT_THAT(closed_to(service, way(0755, 0644)), IsEmpty());
  EXPECT_THAT(closed_to(service, way(0711, 0644)), IsEmpty()) << "a folder on the way need not be listed";
  EXPECT_THAT(closed_to(service, way(0700, 0600)),
              ElementsAre(Closing{"/home/me", "o+x", kMe}, Closing{"/home/me/a.gguf", "o+r", kMe}));
}

TEST(Reach, OwnersAndGroupsAreHeldToTheirOwnBits) {
  EXPECT_THAT(closed_to({"me", kMe, {kMyGroup}}, way(0700, 0600)), IsEmpty());
  EXPECT_THAT(closed_to({"me", kMe, {kMyGroup}}, way(0077, 0644)),
              ElementsAre(Closing{"/home/me", "u+x", kMe}));
  const Reader member{"member", uid_t{7}, {kMyGroup, kShared}};
  EXPECT_THAT(closed_to(member, way(0710, 0640)), IsEmpty());
  EXPECT_THAT(closed_to(member, way(0701, 0604)),
              ElementsAre(Closing{"/home/me", "g+x", kMe}, Closing{"/home/me/a.gguf", "g+r", kMe}));
}

TEST(Reach, AUserWithoutANumberYetIsAnybody) {
  const Reader dynamic{"the service", std::nullopt, {}};
  EXPECT_THAT(closed_to(dynamic, way(0750, 0644)), ElementsAre(Closing{"/home/me", "o+x", kMe}));
}

TEST(Reach, RootReadsEverythingAndAccessListsAreNotJudged) {
  EXPECT_THAT(closed_to({"root", uid_t{0}, {}}, way(0, 0)), IsEmpty());
  auto steps = way(0700, 0644);
  steps[1].has_acl = true;
  EXPECT_THAT(closed_to({"flyball", kService, {}}, steps), IsEmpty());
}

TEST(Reach, WaysBehindLinksCount) {
  const Folder folder;
  folder.write("closed/blob");
  ::chmod((folder.root() / "closed").c_str(), 0700);
  const auto link = folder.link("open.gguf", "closed/blob");
  ::chmod(folder.root().c_str(), 0755);
  ::chmod((folder.root() / "closed/blob").c_str(), 0644);
  const auto closed = closed_to({"another", ::geteuid() + 1, {}}, steps_to(link));
  ASSERT_FALSE(closed.empty());
  EXPECT_EQ(closed.back(),
            (Closing{std::filesystem::canonical(folder.root()) / "closed", "o+x", ::geteuid()}));
}

TEST(Reach, FirstClosedIsTheOutermostFolder) {
  if (::geteuid() == 0) GTEST_SKIP() << "SKIPPED: root may search every folder";
  const Folder folder;
  folder.write("a/b/c");
  ::chmod((folder.root() / "a").c_str(), 0600);
  EXPECT_EQ(first_closed(folder.root() / "a/b/c"), folder.root() / "a");
  EXPECT_EQ(first_closed(folder.root()), "");
  ::chmod((folder.root() / "a").c_str(), 0700);
}

}  // namespace
}  // namespace flyball::discover
