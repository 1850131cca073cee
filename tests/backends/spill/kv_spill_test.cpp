#include "backends/spill/kv_spill.hpp"

#include <atomic>

#include "tests/backends/spill/support.hpp"

namespace flyball::test {
namespace {

std::chrono::steady_clock::time_point soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(60);
}

class KvSpill : public Directory {
 protected:
  std::unique_ptr<spill::KvSpill> make() {
    return std::make_unique<spill::KvSpill>(open(), kBlockBytes, [this](const std::string& why) {
      why_ = why;
      ++told_;  // who sees this may read the reason
    });
  }
  static bool offer(spill::KvSpill& spill, Token n, const char* owner = "app") {
    auto bytes = spill.buffer();
    const auto source = payload(n);
    std::ranges::copy(source, bytes.begin());
    return spill.put(key(n, owner), root(owner), std::move(bytes));
  }
  static bool there(spill::KvSpill& spill, Token n, const char* owner = "app") {
    const auto block = spill.map(key(n, owner));
    return block && std::ranges::equal(block->bytes(), payload(n));
  }

  std::atomic<int> told_{0};
  std::string why_;
};

TEST_F(KvSpill, WritesBesideItsCallerAndReadsBack) {
  const auto spill = make();
  for (Token n = 0; n < 50; ++n) {
    EXPECT_FALSE(spill->knows(key(n)));
    ASSERT_TRUE(offer(*spill, n));
    EXPECT_TRUE(spill->knows(key(n)));
  }
  ASSERT_TRUE(spill->flush(soon()));
  for (Token n = 0; n < 50; ++n) EXPECT_TRUE(there(*spill, n)) << n;
  EXPECT_EQ(spill->counts().blocks, 50U);
  EXPECT_EQ(spill->counts().bytes, 50 * kBlockBytes);
  EXPECT_EQ(told_, 0);
}

// The disk holds the writer: the queue fills, and who comes then is turned away at once.
TEST_F(KvSpill, AFullQueueTurnsAway) {
  std::atomic<bool> held{true};
  options_.interceptor = [&](spill::Call call) {
    while (call == spill::Call::write && held) std::this_thread::yield();
    return 0;
  };
  const auto spill = make();
  Token n = 0;
  while (offer(*spill, n)) ASSERT_LT(++n, 1'000'000);
  EXPECT_EQ(spill->room(), 0U);
  EXPECT_FALSE(spill->knows(key(n)));
  EXPECT_FALSE(spill->wait_room(std::chrono::steady_clock::now()));
  held = false;
  EXPECT_TRUE(spill->wait_room(soon()));
}

TEST_F(KvSpill, AFullDiskTurnsItOffOnceAndForAll) {
  std::atomic<int> writes{0};
  options_.interceptor = [&](spill::Call call) {
    return call == spill::Call::write && ++writes > 5 ? ENOSPC : 0;
  };
  const auto spill = make();
  for (Token n = 0; n < 50; ++n) offer(*spill, n);
  ASSERT_TRUE(spill->flush(soon()));
  while (told_ == 0) std::this_thread::yield();
  EXPECT_FALSE(spill->on());
  EXPECT_FALSE(offer(*spill, 60));
  EXPECT_FALSE(spill->holds(key(0)));
  EXPECT_EQ(spill->counts().blocks, 5U);
  EXPECT_EQ(told_, 1);
  EXPECT_NE(why_.find("No space left"), std::string::npos) << why_;
}

TEST_F(KvSpill, ADiskThatCannotBeReadTurnsItOff) {
  options_.interceptor = [](spill::Call call) { return call == spill::Call::map ? EIO : 0; };
  const auto spill = make();
  ASSERT_TRUE(offer(*spill, 0));
  ASSERT_TRUE(spill->flush(soon()));
  EXPECT_TRUE(spill->holds(key(0)));
  EXPECT_FALSE(spill->map(key(0)));
  EXPECT_FALSE(spill->on());
  EXPECT_EQ(told_, 1);
}

TEST_F(KvSpill, ABlockThatWasChangedIsLeftOutAndTheRestGoesOn) {
  const auto spill = make();
  for (Token n = 0; n < 3; ++n) ASSERT_TRUE(offer(*spill, n));
  ASSERT_TRUE(spill->flush(soon()));
  const auto path = segments().at(0);
  std::string whole = read(path);
  whole[spill::kSegmentHeaderBytes + spill::kRecordHeaderBytes] ^= 1;
  write(path, whole);
  EXPECT_FALSE(spill->map(key(0)));
  EXPECT_FALSE(spill->holds(key(0)));
  EXPECT_TRUE(there(*spill, 1));
  EXPECT_TRUE(spill->on());
}

TEST_F(KvSpill, WhatIsForgottenInTheQueueIsNotWritten) {
  std::atomic<bool> held{true};
  options_.interceptor = [&](spill::Call call) {
    while (call == spill::Call::write && held) std::this_thread::yield();
    return 0;
  };
  const auto spill = make();
  for (Token n = 0; n < 10; ++n) ASSERT_TRUE(offer(*spill, n, n % 2 == 0 ? "app" : "other"));
  std::thread release([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    held = false;
  });
  spill->forget(root("app"));
  release.join();
  ASSERT_TRUE(spill->flush(soon()));
  for (Token n = 0; n < 10; n += 2) EXPECT_FALSE(there(*spill, n, "app")) << n;
  ASSERT_TRUE(offer(*spill, 10, "app"));  // computed since
  ASSERT_TRUE(spill->flush(soon()));
  EXPECT_TRUE(there(*spill, 10, "app"));
}

}  // namespace
}  // namespace flyball::test
