// What holds of rows of logits on every device and with every type of KV: rows computed beside others, in
// other chunks or on a copied block are the same. Bit for bit, or as near as the device's test says.
#pragma once

#include <functional>
#include <string>

#include "tests/backends/cpu/executor_runs.hpp"

namespace flyball::test {

using SameRow = std::function<void(const std::vector<float>& got, const std::vector<float>& expected)>;
inline void same_bits(const std::vector<float>& got, const std::vector<float>& expected) {
  EXPECT_EQ(got, expected);
}

// Heads of 32 values, as q8_0 KV needs.
inline constexpr std::string_view kKvShape =
    "dim=64,layers=2,heads=4,kv_heads=2,head_dim=32,ffn=96,vocab=320,context=1024";

inline void expect_alone_equals_batched(device::Executor& executor, std::uint32_t vocab,
                                        const SameRow& expect_same = same_bits) {
  const auto a = random_tokens(20, vocab, 1), b = random_tokens(30, vocab, 2);
  run_step(executor, {{a, 0, {0, 1}, false}}, vocab);
  run_step(executor, {{b, 0, {2, 3}, false}}, vocab);
  const Piece next_a{{7}, 20, {0, 1}, true}, next_b{{8}, 30, {2, 3}, true}, prompt{a, 0, {4, 5}, true};
  const auto alone_a = run_step(executor, {next_a}, vocab);
  const auto alone_b = run_step(executor, {next_b}, vocab);
  const auto alone_prompt = run_step(executor, {prompt}, vocab);
  const auto together = run_step(executor, {next_a, next_b, prompt}, vocab);
  ASSERT_EQ(together.size(), 3U);
  expect_same(together[0], alone_a[0]);
  expect_same(together[1], alone_b[0]);
  expect_same(together[2], alone_prompt[0]);
}

inline void expect_whole_equals_chunked(device::Executor& executor, std::uint32_t vocab,
                                        const SameRow& expect_same = same_bits) {
  const auto tokens = random_tokens(60, vocab);
  const auto whole = run_chunks(executor, tokens, {0, 1, 2, 3}, vocab, kRunStepTokens, 60);
  ASSERT_FALSE(whole.empty());
  for (const std::size_t chunk : {1U, 7U, 16U, 33U})
    for (const std::size_t last : {0U, 1U}) {
      SCOPED_TRACE("chunks of " + std::to_string(chunk) + ", the last of " + std::to_string(last));
      expect_same(run_chunks(executor, tokens, {9, 8, 7, 6}, vocab, chunk, last), whole);
    }
}

// The rows of a chunk's last tokens beside a decode: each is that of the tokens up to it.
inline void expect_rows_of_beginnings(device::Executor& executor, std::uint32_t vocab,
                                      const SameRow& expect_same = same_bits) {
  const auto tokens = random_tokens(30, vocab, 5);
  const std::span<const Token> all(tokens);
  const auto part = [&](std::size_t from, std::size_t n) {
    return std::vector<Token>(all.begin() + static_cast<std::ptrdiff_t>(from),
                              all.begin() + static_cast<std::ptrdiff_t>(from + n));
  };
  for (const std::uint32_t n_wanted : {2U, 7U, 12U}) {
    run_step(executor, {{part(0, 18), 0, {5, 3}, 0}, {part(3, 4), 0, {7}, 0}}, vocab);
    const auto rows =
        run_step(executor, {{part(18, 12), 18, {5, 3}, n_wanted}, {part(7, 1), 4, {7}, 1}}, vocab);
    ASSERT_EQ(rows.size(), n_wanted + 1);
    for (std::uint32_t i = 0; i < n_wanted; ++i) {
      const std::uint32_t end = 30 - n_wanted + i + 1;
      SCOPED_TRACE("token " + std::to_string(end) + ", of " + std::to_string(n_wanted) + " rows");
      expect_same(rows[i], run_step(executor, {{part(0, end), 0, {9, 2}, 1}}, vocab).at(0));
    }
    expect_same(rows[n_wanted], run_step(executor, {{part(3, 5), 0, {8}, 1}}, vocab).at(0));
  }
}

// A block of which nine positions are filled, copied; then both go on, each in its own.
inline void expect_copied_block_equals_computed(device::Executor& executor, std::uint32_t vocab) {
  const auto tokens = random_tokens(25, vocab);
  run_step(executor, {{tokens, 0, {2, 3}, false}}, vocab);
  const auto computed = run_step(executor, {{{5}, 25, {2, 3}, true}}, vocab);
  const device::BlockCopy copies[] = {{2, 40}, {3, 41}};
  EXPECT_EQ(run_step(executor, {{{5}, 25, {40, 41}, true}}, vocab, copies), computed);
  run_step(executor, {{{9}, 25, {40, 41}, false}}, vocab);  // not the original's
  EXPECT_EQ(run_step(executor, {{{5}, 25, {2, 3}, true}}, vocab), computed);
}

}  // namespace flyball::test
