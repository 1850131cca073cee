// Steps of an executor on a small model, for tests that compare logits: across devices, batches and chunks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "backends/cpu/cpu_device.hpp"
#include "tests/backends/model/run_model.hpp"

namespace flyball::test {

inline constexpr std::uint32_t kRunBlocks = 64, kRunStepTokens = 64, kRunSequences = 16;

// With kRunBlocks blocks of KV.
template <class Made>
auto with_kv(Made made, const model::ModelFile& file, kernels::DType kv_type) {
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  const auto ok = (*made)->reserve_kv(graph::kv_layout(file.config(), kv_type), kRunBlocks);
  EXPECT_TRUE(ok) << (ok ? "" : ok.error().message);
  return std::move(*made);
}

inline std::unique_ptr<device::Executor> cpu_executor(const RunModel& m,
                                                      kernels::DType kv_type = kernels::DType::f16,
                                                      std::optional<kernels::cpu::Isa> isa = {},
                                                      std::uint32_t threads = 2) {
  cpu::CpuDeviceOptions options;
  options.isa = isa;
  options.threads = threads;
  options.max_step_tokens = kRunStepTokens;
  options.max_logit_rows = kRunSequences;
  return with_kv(cpu::make_cpu_executor(*m.file, options), *m.file, kv_type);
}

inline std::vector<Token> random_tokens(std::size_t n, std::uint32_t vocab, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::vector<Token> tokens(n);
  for (Token& t : tokens) t = static_cast<Token>(random() % vocab);
  return tokens;
}

// New tokens of one sequence.
struct Piece {
  std::vector<Token> tokens;
  std::uint32_t first_position = 0;
  std::vector<std::uint32_t> blocks;
  std::uint32_t n_wanted = 1;  // of its last tokens, those whose logits are wanted
};
using Rows = std::vector<std::vector<float>>;

// One step; the rows of logits that its pieces want, in order.
inline Rows run_step(device::Executor& executor, const std::vector<Piece>& pieces, std::uint32_t vocab,
                     std::span<const device::BlockCopy> copies = {}) {
  std::vector<Token> tokens;
  std::vector<device::StepSequence> sequences;
  for (const Piece& p : pieces) {
    sequences.push_back({static_cast<std::uint32_t>(tokens.size()),
                         static_cast<std::uint32_t>(p.tokens.size()), p.first_position, p.blocks,
                         p.n_wanted});
    tokens.insert(tokens.end(), p.tokens.begin(), p.tokens.end());
  }
  const auto step = executor.submit({tokens, sequences}, copies);
  if (!step) {
    ADD_FAILURE() << step.error().message;
    return {};
  }
  const auto output = executor.wait(*step);
  if (!output) {
    ADD_FAILURE() << output.error().message;
    return {};
  }
  Rows rows;
  const std::span<const float> logits = output->logits;
  for (std::size_t at = 0; at < logits.size(); at += vocab) {
    const auto row = logits.subspan(at, vocab);
    rows.emplace_back(row.begin(), row.end());
  }
  return rows;
}

// The last logits of `tokens`, computed in steps of `chunk` of which the last one is `last` tokens long; 0:
// as long as what is left.
inline std::vector<float> run_chunks(device::Executor& executor, const std::vector<Token>& tokens,
                                     const std::vector<std::uint32_t>& blocks, std::uint32_t vocab,
                                     std::size_t chunk, std::size_t last = 0) {
  Rows rows;
  for (std::size_t at = 0; at < tokens.size();) {
    const std::size_t left = tokens.size() - at;
    const std::size_t n = left > last ? std::min(chunk, left - last) : left;
    const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(at);
    rows = run_step(executor,
                    {{{from, from + static_cast<std::ptrdiff_t>(n)},
                      static_cast<std::uint32_t>(at),
                      blocks,
                      at + n == tokens.size()}},
                    vocab);
    at += n;
    EXPECT_EQ(rows.size(), at == tokens.size() ? 1U : 0U);
  }
  return rows.empty() ? std::vector<float>{} : rows[0];
}

// The last logits of 900 tokens: several splits of decode attention, in blocks that lie in no order.
inline std::vector<float> last_of_900(device::Executor& executor, std::uint32_t vocab, std::size_t last) {
  std::vector<std::uint32_t> blocks(kRunBlocks - 1);
  for (std::uint32_t i = 0; i < blocks.size(); ++i) blocks[i] = (i * 29 + 3) % kRunBlocks;
  return run_chunks(executor, random_tokens(900, vocab), blocks, vocab, kRunStepTokens, last);
}

inline std::vector<Token> greedy_tokens(device::Executor& executor, std::vector<Token> tokens, std::size_t n,
                                        std::uint32_t vocab) {
  const std::vector<std::uint32_t> blocks{9, 3, 4, 17, 5, 22, 23, 8, 1, 0};
  std::vector<Token> out;
  std::uint32_t position = 0;
  while (out.size() < n) {
    const auto rows = run_step(executor, {{tokens, position, blocks, true}}, vocab);
    if (rows.empty()) return out;
    position += static_cast<std::uint32_t>(tokens.size());
    out.push_back(static_cast<Token>(std::ranges::max_element(rows[0]) - rows[0].begin()));
    tokens = {out.back()};
  }
  return out;
}

template <class Real>
double relative_error(const std::vector<float>& got, const std::vector<Real>& expected) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += std::pow(double{got[i]} - expected[i], 2);
    norm += std::pow(double{expected[i]}, 2);
  }
  return std::sqrt(error / norm);
}

}  // namespace flyball::test
