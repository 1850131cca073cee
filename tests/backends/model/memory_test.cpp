// What hostile files may cost in memory, and what happens when there is none. Replaces operator new.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "backends/model/model_file.hpp"
#include "tests/backends/model/raw_gguf.hpp"

namespace {

// Live bytes, their peak, and the number of allocations left before one fails (negative: none fails).
std::atomic<std::int64_t> live_bytes = 0, peak_bytes = 0, until_failure = -1;

void* allocate(std::size_t size) {
  if (until_failure >= 0 && until_failure-- == 0) throw std::bad_alloc();
  void* const at = std::malloc(size);
  if (at == nullptr) throw std::bad_alloc();
  live_bytes += static_cast<std::int64_t>(::malloc_usable_size(at));
  peak_bytes = std::max(peak_bytes.load(), live_bytes.load());
  return at;
}
void release(void* at) noexcept {
  if (at != nullptr) live_bytes -= static_cast<std::int64_t>(::malloc_usable_size(at));
  std::free(at);
}

}  // namespace

void* operator new(std::size_t size) {
  return allocate(size);
}
void* operator new[](std::size_t size) {
  return allocate(size);
}
void operator delete(void* at) noexcept {
  release(at);
}
void operator delete[](void* at) noexcept {
  release(at);
}
void operator delete(void* at, std::size_t) noexcept {
  release(at);
}
void operator delete[](void* at, std::size_t) noexcept {
  release(at);
}

namespace flyball::model {
namespace {

using test::Raw;

// The most that parsing `file` held at once, beyond the file itself.
std::int64_t peak_of(std::span<const std::byte> file) {
  const auto before = live_bytes.load();
  peak_bytes = before;
  EXPECT_FALSE(ModelFile::from_bytes(file));
  EXPECT_EQ(live_bytes, before);
  return peak_bytes - before;
}

constexpr std::int64_t kMost = 16 << 20;

TEST(ModelMemory, TwentyMegabytesOfTinyKeys) {
  Raw raw;
  raw.header(0, kMaxGgufKeys);
  for (std::uint64_t i = 0; i < kMaxGgufKeys; ++i) raw.text(std::to_string(i)).put(std::uint32_t{0}).put('x');
  raw.zeros(20'000'000 - raw.bytes().size());
  EXPECT_LT(peak_of(raw.bytes()), kMost);
}

TEST(ModelMemory, ArraysOfEmptyStrings) {
  Raw raw;
  raw.header(0, 3);
  for (const char* name : {"a", "b", "c"}) {
    const std::uint64_t n = 800'000;
    raw.key(name, GgufType::array).put(static_cast<std::uint32_t>(GgufType::string)).put(n).zeros(n * 8);
  }
  EXPECT_LT(peak_of(raw.bytes()), kMost);
}

TEST(ModelMemory, TheMostTensorsAllowed) {
  Raw raw;
  raw.header(kMaxGgufTensors, 0);
  for (std::uint64_t i = 0; i < kMaxGgufTensors; ++i) raw.tensor(std::to_string(i), {1}, 0, i * 32);
  raw.pad(32).zeros(kMaxGgufTensors * 32);
  EXPECT_LT(peak_of(raw.bytes()), kMost);
}

TEST(ModelMemory, CountsThatPromiseMore) {
  for (const std::uint64_t count : {std::uint64_t{4'194'304}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    Raw raw;
    raw.header(0, 1)
        .key("key", GgufType::array)
        .put(static_cast<std::uint32_t>(GgufType::string))
        .put(count)
        .zeros(64);
    EXPECT_LT(peak_of(raw.bytes()), 65'536);
    EXPECT_LT(peak_of(Raw().header(count, 0).zeros(64).bytes()), 65'536);
    EXPECT_LT(peak_of(Raw().header(0, count).zeros(64).bytes()), 65'536);
  }
}

// Every allocation fails once: an error that says so, and nothing is leaked.
TEST(ModelMemory, EveryAllocationFailsOnce) {
  const auto file = test::SmallModel{}.bytes([](GgufWriter& out) {
    out.set_string("general.name", "a name too long for the small string optimization");
    out.set_strings("words", std::vector<std::string>{"a", "b"});
  });
  int failures = 0;
  for (int n = 0;; ++n) {
    const auto before = live_bytes.load();
    until_failure = n;
    auto opened = ModelFile::from_bytes(file);
    const bool reached = until_failure < 0;
    until_failure = -1;
    if (!reached) {
      EXPECT_TRUE(opened);
      break;
    }
    ASSERT_FALSE(opened) << n;
    EXPECT_EQ(opened.error().code, ErrorCode::insufficient_memory) << n;
    opened = std::unexpected(Error{});
    EXPECT_EQ(live_bytes, before) << n;
    ++failures;
  }
  EXPECT_GT(failures, 50);
}

}  // namespace
}  // namespace flyball::model
