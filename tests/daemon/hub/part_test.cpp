// A part on the disk: digests over restarts, its lock, and the file that gets its name.
#include "daemon/hub/part.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "daemon/hub/folder.hpp"
#include "tests/harness/temp_dir.hpp"

namespace flyball::hub {
namespace {

// SHA-256 of "hello", and its digest as a git blob (`printf hello | git hash-object --stdin`).
constexpr const char* kHello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
constexpr const char* kHelloBlob = "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0";

Result<void> append(Part& part, std::string_view text) {
  return part.append(std::as_bytes(std::span(text)));
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(HubPart, ADigestGoesOnWhereTheProcessBeforeStopped) {
  const test::TempDir dir;
  const auto file = dir.path() / "m.gguf";
  {
    auto part = Part::open(file);
    ASSERT_TRUE(part && part->begin({}) && append(*part, "hel"));
    ASSERT_TRUE(write_origin(file, {"https://h/m.gguf", "\"tag\"", {5, kHello, {}}}));
  }
  const auto origin = read_origin(file);
  ASSERT_TRUE(origin.has_value());
  EXPECT_EQ(origin->etag, "\"tag\"");
  EXPECT_EQ(origin->expected.size, 5U);
  auto part = Part::open(file);
  ASSERT_TRUE(part.has_value());
  EXPECT_EQ(part->size(), 3U);
  ASSERT_TRUE(part->begin({5, kHello, kHelloBlob}) && append(*part, "lo"));
  ASSERT_TRUE(part->check("here"));
  ASSERT_TRUE(part->publish());
  EXPECT_EQ(text_of(file), "hello");
  EXPECT_EQ(text_of(digest_file(file)), std::string(kHello) + "  m.gguf\n");
  EXPECT_EQ(written_digest(file), kHello);
  EXPECT_FALSE(std::filesystem::exists(part_file(file)));
  EXPECT_FALSE(std::filesystem::exists(origin_file(file)));
}

TEST(HubPart, WrongBytesAreNamedAndRemoved) {
  const test::TempDir dir;
  const auto file = dir.path() / "m.gguf";
  for (const Expected& expected : {Expected{5, kHello, {}}, Expected{5, {}, kHelloBlob}}) {
    auto part = Part::open(file);
    ASSERT_TRUE(part && part->begin(expected) && append(*part, "hallo"));
    const auto right = part->check("here");
    ASSERT_FALSE(right.has_value());
    EXPECT_NE(right.error().message.find(expected.sha256 + expected.git_oid), std::string::npos);
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  }
}

TEST(HubPart, StartsAnewWithoutAByteOfTheOldOne) {
  const test::TempDir dir;
  auto part = Part::open(dir.path() / "m.gguf");
  ASSERT_TRUE(part && part->begin({5, kHello, kHelloBlob}) && append(*part, "another file"));
  ASSERT_TRUE(part->start_anew() && append(*part, "hello"));
  EXPECT_TRUE(part->check("here"));
}

TEST(HubPart, TheOriginOfAFileWithoutADigestStaysBesideIt) {
  const test::TempDir dir;
  const auto file = dir.path() / "m.gguf";
  auto part = Part::open(file);
  ASSERT_TRUE(part && part->begin({}) && append(*part, "hello"));
  ASSERT_TRUE(write_origin(file, {"https://h/m.gguf", "\"tag\"", {5, {}, {}}}));
  ASSERT_TRUE(part->check("here") && part->publish());
  EXPECT_FALSE(read_origin(file).has_value());
  ASSERT_TRUE(read_source(file).has_value());
  EXPECT_EQ(read_source(file)->etag, "\"tag\"");
  auto next = Part::open(file);
  ASSERT_TRUE(next && next->begin({5, kHello, {}}) && append(*next, "hello"));
  ASSERT_TRUE(next->check("here") && next->publish());
  EXPECT_FALSE(read_source(file).has_value()) << "the digest says more";
}

TEST(HubPart, LeftoversOfAKilledProcessAreRemovedAndNothingElse) {
  const test::TempDir dir;
  const auto file = dir.path() / "m.gguf";
  auto part = Part::open(file);
  ASSERT_TRUE(part && part->begin({}) && append(*part, "hel"));
  ASSERT_TRUE(write_origin(file, {"https://h/m.gguf", "\"tag\"", {5, {}, {}}}));
  std::ofstream(unfinished(digest_file(file))) << "half";
  std::ofstream(unfinished(origin_file(file))) << "half";
  std::filesystem::create_directory(check_folder(file));
  std::filesystem::create_symlink("../m.gguf.part", check_folder(file) / "m.gguf");
  part->remove_leftovers();
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    left.push_back(entry.path().filename());
  std::ranges::sort(left);
  EXPECT_EQ(left, (std::vector<std::string>{"m.gguf.part", "m.gguf.part.json"}));
}

TEST(HubPart, HasOneWriter) {
  const test::TempDir dir;
  const auto file = dir.path() / "m.gguf";
  {
    const auto part = Part::open(file);
    ASSERT_TRUE(part.has_value());
    EXPECT_FALSE(Part::open(file).has_value());
  }
  EXPECT_TRUE(Part::open(file).has_value());
}

TEST(HubPart, IsNotReachedThroughALink) {
  const test::TempDir dir;
  std::ofstream(dir.path() / "precious") << "precious";
  std::filesystem::create_symlink("precious", part_file(dir.path() / "m.gguf"));
  EXPECT_FALSE(Part::open(dir.path() / "m.gguf").has_value());
  EXPECT_EQ(text_of(dir.path() / "precious"), "precious");
}

TEST(HubPart, ADigestOfAnotherFileIsNone) {
  const test::TempDir dir;
  const auto file = dir.path() / "m.gguf";
  EXPECT_EQ(written_digest(file), "");
  std::ofstream(digest_file(file)) << kHello << "  other.gguf\n";
  EXPECT_EQ(written_digest(file), "");
  std::ofstream(digest_file(file)) << "zz" << std::string(kHello).substr(2) << "  m.gguf\n";
  EXPECT_EQ(written_digest(file), "");
  std::ofstream(digest_file(file)) << kHello << " *m.gguf\n";  // sha256sum --binary
  EXPECT_EQ(written_digest(file), kHello);
}

}  // namespace
}  // namespace flyball::hub
