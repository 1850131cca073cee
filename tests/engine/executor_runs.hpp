// Steps of an executor on a small model, for tests that compare logits: across devices, batches and chunks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "backends/cpu/cpu_device.hpp"
#include "backends/model/model_file.hpp"
#include "backends/model/synthetic.hpp"

namespace flyball::test {

inline constexpr std::uint32_t kRunBlocks = 64, kRunStepTokens = 64, kRunSequences = 16;

struct RunModel {
  std::vector<std::byte> bytes;
  std::unique_ptr<model::ModelFile> file;
  std::uint32_t vocab() const { return file->config().vocab_size; }
};

inline RunModel synthetic_model(kernels::DType type, std::string_view shape) {
  auto spec = model::parse_synthetic_shape(shape).value();
  spec.type = type;
  RunModel m;
  m.bytes = model::synthetic_bytes(spec).value();
  m.file = model::ModelFile::from_bytes(m.bytes).value();
  return m;
}

// With kRunBlocks blocks of KV.
template <class Made>
auto with_kv(Made made, const model::ModelFile& file, kernels::DType kv_type) {
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  const auto ok = (*made)->reserve_kv(graph::kv_layout(file.config(), kv_type), kRunBlocks);
  EXPECT_TRUE(ok) << (ok ? "" : ok.error().message);
  return std::move(*made);
}

inline std::unique_ptr<engine::Executor> cpu_executor(const RunModel& m, kernels::DType kv_type,
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
  bool want_logits = true;
};
using Rows = std::vector<std::vector<float>>;

// One step; a row of logits for each piece that wants them.
inline Rows run_step(engine::Executor& executor, const std::vector<Piece>& pieces, std::uint32_t vocab,
                     std::span<const engine::BlockCopy> copies = {}) {
  std::vector<Token> tokens;
  std::vector<engine::StepSequence> sequences;
  for (const Piece& p : pieces) {
    sequences.push_back({static_cast<std::uint32_t>(tokens.size()),
                         static_cast<std::uint32_t>(p.tokens.size()), p.first_position, p.blocks,
                         p.want_logits});
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

// The last logits of `tokens`, computed in steps of `chunk` of which the last one is `last` tokens long.
inline std::vector<float> run_chunks(engine::Executor& executor, const std::vector<Token>& tokens,
                                     const std::vector<std::uint32_t>& blocks, std::uint32_t vocab,
                                     std::size_t chunk, std::size_t last) {
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
  }
  return rows.empty() ? std::vector<float>{} : rows[0];
}

inline std::vector<Token> greedy_tokens(engine::Executor& executor, std::vector<Token> tokens, std::size_t n,
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

inline double relative_error(const std::vector<float>& got, const std::vector<float>& expected) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += std::pow(double{got[i]} - expected[i], 2);
    norm += std::pow(double{expected[i]}, 2);
  }
  return std::sqrt(error / norm);
}

}  // namespace flyball::test
