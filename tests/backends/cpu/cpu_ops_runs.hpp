// Steps of the decoder on the CPU's operations themselves, below the executor.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "backends/cpu/cpu_ops.hpp"
#include "backends/graph/decoder.hpp"
#include "tests/backends/cpu/executor_runs.hpp"

namespace flyball::test {

// Random tokens of one sequence from its start on.
class Prompt {
 public:
  Prompt(std::size_t n, std::uint32_t vocab, std::vector<std::uint32_t> blocks,
         std::vector<std::uint32_t> wanted)
      : tokens_(random_tokens(n, vocab)),
        positions_(n),
        sequence_of_(n, 0),
        blocks_(std::move(blocks)),
        wanted_(std::move(wanted)) {
    std::iota(positions_.begin(), positions_.end(), 0U);
  }
  Prompt(const Prompt&) = delete;
  Prompt& operator=(const Prompt&) = delete;

  // Points into the prompt.
  graph::StepInputs inputs() const {
    return {tokens_, positions_, sequence_of_, {&table_, 1}, wanted_, false};
  }

 private:
  std::vector<Token> tokens_;
  std::vector<std::uint32_t> positions_, sequence_of_, blocks_, wanted_;
  std::span<const std::uint32_t> table_{blocks_};
};

// Logits of rows 3 and 19 of a prompt, then of one decoded token.
inline std::vector<float> prompt_and_token(const model::ModelConfig& config, cpu::CpuOps& cpu,
                                           graph::Ops& ops) {
  EXPECT_TRUE(cpu.reserve_kv(graph::kv_layout(config), 4));
  const Prompt prompt(20, config.vocab_size, {2, 0}, {3, 19});
  const float* logits = cpu.buffer(graph::Buffer::logits);
  graph::decode_step(config, prompt.inputs(), ops);
  std::vector<float> out(logits, logits + 2 * config.vocab_size);
  const Token next[] = {7};
  const std::uint32_t position[] = {20};
  const std::uint32_t zero[] = {0};
  graph::decode_step(config, {next, position, zero, prompt.inputs().block_tables, zero, true}, ops);
  out.insert(out.end(), logits, logits + config.vocab_size);
  return out;
}

}  // namespace flyball::test
