// A session leaves an engine's memory and comes back from the disk: with the same answer, to the bit, and
// without being computed again. On any device.
#pragma once

#include <fstream>

#include "tests/backends/local/sharing_cases.hpp"

namespace flyball::test {

class SpillModel : public SharingModel {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() / ("flyball_spill_cases_" + std::to_string(getpid()));
    std::filesystem::remove_all(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  local::LocalBackendOptions spilling(local::LocalBackendOptions o) const {
    o.spill.directory = directory_ / "kv";
    o.spill.max_bytes = 64 << 20;
    return o;
  }
  static CompletionRequest session(std::uint32_t family = 1, std::uint32_t tokens = 600) {
    return request(family, tokens, 5, family, 24);
  }
  static void drain(Backend& backend) { backend.drain(std::chrono::steady_clock::now() + kDrain); }
  std::vector<std::filesystem::path> segments() const {
    std::vector<std::filesystem::path> all;
    for (const auto& entry : std::filesystem::directory_iterator(directory_ / "kv"))
      if (entry.path().extension() == ".kv") all.push_back(entry.path());
    return all;
  }

  // The engine ends and another one begins.
  void expect_same_after_a_restart(const local::LocalBackendOptions& plain) const {
    const Answer computed = wait(*make_backend(plain), session());
    {
      const auto first = make_backend(spilling(plain));
      const Answer answer = wait(*first, session());
      EXPECT_EQ(answer.usage().cached_tokens, 0U);
      expect_same(computed, answer);
      drain(*first);
      EXPECT_GT(first->load().spilled_bytes, 0U);
      EXPECT_TRUE(first->load().spills);
    }
    const auto second = make_backend(spilling(plain));
    const Answer stranger = wait(*second, session(), "another app");
    EXPECT_EQ(stranger.usage().cached_tokens, 0U);
    EXPECT_EQ(second->load().restored_tokens, 0U);
    const Answer back = wait(*second, session());
    EXPECT_EQ(back.usage().cached_tokens, 604U / 16 * 16);
    EXPECT_EQ(second->load().restored_tokens, 604U / 16 * 16);
    expect_same(computed, back);
    // What continues it, too.
    const Answer longer = wait(*make_backend(plain), request(1, 600, 90, 1, 24));
    expect_same(longer, wait(*second, request(1, 600, 90, 1, 24)));
  }

  // Its blocks are taken for others, in one engine.
  void expect_same_after_eviction(const local::LocalBackendOptions& plain) const {
    auto tight = plain;
    tight.kv_blocks = 45;  // one such session, and not another one's beginning
    const Answer computed = wait(*make_backend(plain), session());
    auto o = spilling(tight);
    o.spill.after = std::chrono::hours(1);  // by eviction alone
    const auto backend = make_backend(o);
    expect_same(computed, wait(*backend, session()));
    for (std::uint32_t family = 2; family < 4; ++family) wait(*backend, session(family));
    // The second session takes at least 34 of the first one's 39 blocks, the third the rest of them before
    // any of the second's, and 39 in all; they are written in this order.
    const std::uint64_t block = backend->info().kv_bytes / backend->load().kv_blocks_total;
    const auto deadline = std::chrono::steady_clock::now() + kDrain;
    while (backend->load().spilled_bytes < 60 * block) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << backend->load().spilled_bytes / block;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const Answer back = wait(*backend, session());
    EXPECT_GT(backend->load().restored_tokens, 0U);
    EXPECT_GT(back.usage().cached_tokens, 0U);
    expect_same(computed, back);
  }

  std::filesystem::path directory_;
};

}  // namespace flyball::test
