#include "daemon/hub/listing.hpp"

#include <gtest/gtest.h>

namespace flyball::hub {
namespace {

const std::string kSha256(64, 'a');

std::string entry(const std::string& path, const std::string& more) {
  return R"({"type":"file","path":")" + path + "\"," + more + "}";
}
std::string large(const std::string& path, const std::string& size = "7", const std::string& oid = kSha256) {
  return entry(path, R"("size":1,"oid":"x","lfs":{"size":)" + size + R"(,"oid":")" + oid + R"("})");
}

std::string refusal(const std::string& json) {
  std::vector<RepoFile> files;
  const auto added = add_page(files, json);
  return added ? "" : added.error().message;
}

TEST(HubListing, LargeFilesHaveTheirSha256AndSmallOnesTheirGitDigest) {
  std::vector<RepoFile> files;
  ASSERT_TRUE(add_page(files, "[" + large("a/b.gguf", "123", std::string(64, 'A')) +
                                  R"(,{"type":"directory","path":"a","oid":"1","size":0},)" +
                                  entry("config.json", R"("size":9,"oid":")" + std::string(40, 'b') + "\"") +
                                  "]"));
  ASSERT_TRUE(add_page(files, "[" + entry("odd.json", R"("size":0,"oid":"x")") + "]"));
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files[0].path, "a/b.gguf");
  EXPECT_EQ(files[0].size, 123U);
  EXPECT_EQ(files[0].sha256, kSha256);
  EXPECT_EQ(files[0].git_oid, "");
  EXPECT_EQ(files[1].git_oid, std::string(40, 'b'));
  EXPECT_EQ(files[2].git_oid, "");
}

TEST(HubListing, WhatIsNoListingIsRefused) {
  for (const std::string json : {"", "{}", "[1]", "[{\"type\":\"file\"}]", "[[[[[[[[[["})
    EXPECT_NE(refusal(json), "") << json;
  EXPECT_NE(refusal("[" + large("a.gguf", "-1") + "]"), "");
  EXPECT_NE(refusal("[" + large("a.gguf", "1e3") + "]"), "");
  EXPECT_NE(refusal("[" + large("a.gguf", "281474976710657") + "]").find("the limit is"), std::string::npos);
  EXPECT_NE(refusal("[" + large("a.gguf", "7", "abc") + "]"), "");
  EXPECT_NE(refusal("[" + large("a.gguf") + "," + large("a.gguf") + "]"), "");
  EXPECT_NE(refusal(std::string(200, '[') + std::string(200, ']')), "");
}

TEST(HubListing, PathsThatLeaveTheFolderAreRefused) {
  for (const std::string path : {"", "..", "../a", "a/../b", "a/..", "./a", "/a", "a//b", "a/", "a\\\\b",
                                 "a\\u0000b", "a\\nb", "a\\u001b[2J", "a\\u009bb"})
    EXPECT_NE(refusal("[" + large(path) + "]").find("which is refused"), std::string::npos) << path;
  EXPECT_NE(refusal("[" + large(std::string(300, 'x')) + "]"), "");
  EXPECT_EQ(refusal("[" + large(".hidden/a..b/c.gguf") + "]"), "");
}

TEST(HubListing, TooManyFilesAreRefusedAcrossPages) {
  std::vector<RepoFile> files(kMaxRepoFiles);
  for (std::size_t i = 0; i < files.size(); ++i) files[i].path = std::to_string(i);
  EXPECT_FALSE(add_page(files, "[" + large("one-more") + "]").has_value());
}

TEST(HubListing, TheNextPageIsTheLinkCalledNext) {
  EXPECT_EQ(next_page(R"(<https://h/a?cursor=x>; rel="next")"), "https://h/a?cursor=x");
  EXPECT_EQ(next_page(R"(<https://h/0>; rel="prev", <https://h/2>; rel="next")"), "https://h/2");
  EXPECT_EQ(next_page(R"(<https://h/0>; rel="prev")"), "");
  EXPECT_EQ(next_page(""), "");
  EXPECT_EQ(next_page("<https://h/0"), "");
}

}  // namespace
}  // namespace flyball::hub
