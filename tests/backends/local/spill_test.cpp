// KV that goes to the disk and comes back, on the CPU device.
#include "backends/engine/build_id.hpp"
#include "tests/backends/local/spill_cases.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>

namespace flyball::test {
namespace {

class SpillOnCpu : public SpillModel, public testing::WithParamInterface<const char*> {
 protected:
  static local::LocalBackendOptions plain() { return options(GetParam(), 2); }
};

TEST_P(SpillOnCpu, ASessionReturnsAfterARestart) {
  expect_same_after_a_restart(plain());
}

TEST_P(SpillOnCpu, ASessionReturnsAfterEviction) {
  expect_same_after_eviction(plain());
}

TEST_P(SpillOnCpu, AnIdleEngineSavesByItself) {
  auto o = spilling(plain());
  o.spill.after = std::chrono::milliseconds(1);
  {
    const auto backend = make_backend(o);
    wait(*backend, session());
    const std::uint64_t block = backend->info().kv_bytes / backend->load().kv_blocks_total;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (backend->load().spilled_bytes < 605 / 16 * block) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }  // no drain: as if it had been killed
  const auto again = make_backend(spilling(plain()));
  EXPECT_GT(wait(*again, session()).usage().cached_tokens, 500U);
}

// What an older build has kept is another's: builds are told apart by it.
TEST(BuildId, IsTheLinkers) {
  const std::string id = engine::build_id();
  EXPECT_EQ(id.size(), 40U);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
}

INSTANTIATE_TEST_SUITE_P(KvTypes, SpillOnCpu, testing::Values("f16", "q8_0"),
                         [](const auto& i) { return std::string(i.param); });

class Spill : public SpillModel {
 protected:
  static local::LocalBackendOptions plain() { return options("f16", 2); }
  void save_one() {
    const auto backend = make_backend(spilling(plain()));
    wait(*backend, session());
    drain(*backend);
    ASSERT_FALSE(segments().empty());
  }
};

TEST_F(Spill, AnotherKvTypeOrModelOrAWrittenOverOneFindsNothing) {
  save_one();
  auto q8_0 = spilling(options("q8_0", 2));
  EXPECT_EQ(wait(*make_backend(q8_0), session()).usage().cached_tokens, 0U);

  auto copy = spilling(plain());
  copy.path = directory_ / "copy.gguf";
  std::filesystem::copy_file(path_, copy.path);
  EXPECT_EQ(wait(*make_backend(copy), session()).usage().cached_tokens, 0U)
      << "its time is another: nobody has compared the weights";
  std::filesystem::last_write_time(copy.path, std::filesystem::last_write_time(path_));
  EXPECT_GT(wait(*make_backend(copy), session()).usage().cached_tokens, 0U);
  {
    std::fstream file(copy.path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-2, std::ios::end).put('\x11');
  }
  std::filesystem::last_write_time(copy.path, std::filesystem::last_write_time(path_));
  EXPECT_EQ(wait(*make_backend(copy), session()).usage().cached_tokens, 0U);
}

// Keys that were rotated for short sequences are of no use among those rotated for long ones.
TEST_F(Spill, LongRopesFactorsTellWhatWasRotatedBy) {
  const auto path = std::filesystem::path(directory_.string() + ".gguf");
  auto spec = model::parse_synthetic_shape(
                  "arch=phi3,dim=64,layers=2,heads=4,kv_heads=2,head_dim=32,rope_dim=32,ffn=96,vocab=512,"
                  "context=4096,rope=longrope")
                  .value();
  ASSERT_TRUE(model::write_synthetic_file(spec, path, 1));
  auto o = spilling(plain());
  o.path = path;
  o.context = 1024;
  {
    const auto backend = make_backend(o);
    wait(*backend, session());
    drain(*backend);
  }
  EXPECT_GT(wait(*make_backend(o), session()).usage().cached_tokens, 0U);
  o.context = 2048;
  EXPECT_EQ(wait(*make_backend(o), session()).usage().cached_tokens, 0U);
  std::filesystem::remove(path);
}

TEST_F(Spill, AChangedBlockIsComputedAgain) {
  const Answer computed = wait(*make_backend(plain()), session());
  save_one();
  for (const auto& path : segments()) {  // in the middle of a block in the middle
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(path) / 2 + 1000)).put('\x5a');
  }
  const auto backend = make_backend(spilling(plain()));
  const Answer back = wait(*backend, session());
  EXPECT_GT(back.usage().cached_tokens, 0U);
  EXPECT_LT(back.usage().cached_tokens, 592U);
  EXPECT_TRUE(backend->load().spills);
  expect_same(computed, back);
}

TEST_F(Spill, AFullDiskTurnsItOffAndServingGoesOn) {
  const Answer computed = wait(*make_backend(plain()), session());
  std::atomic<int> writes{0}, told{0};
  auto o = spilling(plain());
  o.spill.after = std::chrono::milliseconds(1);
  o.spill.interceptor = [&](spill::Call call) {
    return call == spill::Call::write && ++writes > 3 ? ENOSPC : 0;
  };
  o.warn = [&](const std::string& why) {
    if (why.find("No space left") != std::string::npos) ++told;
  };
  const auto backend = make_backend(o);
  EXPECT_TRUE(backend->load().spills);
  expect_same(computed, wait(*backend, session()));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (told == 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::yield();
  }
  EXPECT_FALSE(backend->load().spills);
  expect_same(computed, wait(*backend, session(), "another"));
  drain(*backend);
  EXPECT_EQ(told, 1);
}

TEST_F(Spill, ADirectoryThatCannotBeUsedCostsSpillingAlone) {
  auto o = spilling(plain());
  o.spill.directory = path_ / "kv";  // below a file
  std::string told;
  o.warn = [&](const std::string& why) { told = why; };
  const auto backend = make_backend(o);
  EXPECT_NE(told, "");
  EXPECT_FALSE(backend->load().spills);
  EXPECT_EQ(wait(*backend, session()).client->tokens().size(), 24U);
}

// ---- over the fake device: blocks of 4 --------------------------------------------------------------------

// Numbers that are none mean that what was computed may be wrong: nobody has it back from the disk.
TEST_F(Spill, WhatIsNotTrustedDoesNotComeBack) {
  const std::string prompt = "a prompt of some length";
  const FakeShape shape{.spill = directory_ / "kv"};
  {
    auto fake = make_fake(shape);
    wait(*fake.backend, text_request(prompt, 2), "mine");
    wait(*fake.backend, text_request(prompt, 2), "theirs");
    drain(*fake.backend);
  }
  {
    auto fake = make_fake(shape);
    EXPECT_EQ(wait(*fake.backend, text_request(prompt, 2), "mine").usage().cached_tokens, 20U);
    fake.control->poisoned = '!';
    const Answer poisoned = ask(*fake.backend, text_request("! and more", 2), "mine");
    ASSERT_TRUE(poisoned.client->wait_end());
    ASSERT_TRUE(poisoned.client->error());
    EXPECT_EQ(poisoned.client->error()->code, ErrorCode::numeric_error);
  }
  auto fake = make_fake(shape);
  EXPECT_EQ(wait(*fake.backend, text_request(prompt, 2), "mine").usage().cached_tokens, 0U);
}

TEST_F(Spill, ManySessionsInLittleMemoryAllComeBack) {
  auto fake = make_fake({.blocks = 20, .sequences = 2, .spill = directory_ / "kv"});
  // What is written depends on when the writer runs: turns go on until something came back.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  const auto came_back = [&] { return fake.backend->load().restored_tokens > 0; };
  for (int turn = 0; turn < 3 || (!came_back() && std::chrono::steady_clock::now() < deadline); ++turn)
    for (int i = 0; i < 8; ++i) {
      const std::string prompt = std::string(1, static_cast<char>('a' + i)) + " talks of this and that";
      const Answer answer = wait(*fake.backend, text_request(prompt, 6));
      EXPECT_EQ(answer.client->text(), expected_text(prompt, 6));
    }
  EXPECT_TRUE(came_back());
  drain(*fake.backend);
  EXPECT_EQ(fake.backend->load().kv_blocks_used, 0U);
}

}  // namespace
}  // namespace flyball::test
