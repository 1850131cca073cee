// A step batch laid out as rows for the decoder, and checked: an engine's mistake ends a step, it does not
// write outside a buffer. Shared by all devices; in a header because devices stand below backends/engine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/device/executor.hpp"
#include "backends/graph/ops.hpp"

namespace flyball::device {

struct StepLimits {
  std::uint32_t step_tokens = 0;  // rows
  std::uint32_t logit_rows = 0;   // rows whose logits may be wanted
  std::uint32_t vocab_size = 0;
  std::uint32_t kv_blocks = 0;
  std::uint32_t block_size = 0;
  std::uint32_t max_candidates = 0;
};

// Kept from step to step to reuse its memory. inputs() views the batch's tokens and block tables.
class StepRows {
 public:
  Result<void> lay_out(const StepBatch& batch, std::span<const BlockCopy> copies, const StepLimits& limits) {
    const auto refuse = [](const char* what) { return fail(ErrorCode::internal, what); };
    positions_.clear();
    sequence_of_.clear();
    block_tables_.clear();
    wanted_.clear();
    whole_.clear();
    top_k_.clear();
    tokens_ = batch.tokens;
    one_row_each_ = true;
    for (const BlockCopy& copy : copies)
      if (copy.from >= limits.kv_blocks || copy.to >= limits.kv_blocks)
        return refuse("A block copy names a KV block that was not reserved.");
    if (batch.tokens.empty() || batch.tokens.size() > limits.step_tokens)
      return refuse("A step holds no token, or more than the device was made for.");
    for (const Token token : batch.tokens)
      if (token < 0 || static_cast<std::uint32_t>(token) >= limits.vocab_size)
        return refuse("A token is not in the vocabulary.");
    std::uint32_t next = 0;
    for (const StepSequence& s : batch.sequences) {
      if (s.first_token != next || s.n_tokens == 0 || s.n_tokens > batch.tokens.size() - next)
        return refuse("The sequences of a step do not cover its tokens.");
      const std::uint64_t end = std::uint64_t{s.first_position} + s.n_tokens;
      if (s.block_table.size() * limits.block_size < end)
        return refuse("A block table does not cover its positions.");
      for (const BlockId block : s.block_table)
        if (block >= limits.kv_blocks) return refuse("A block table names a KV block that was not reserved.");
      for (std::uint32_t i = 0; i < s.n_tokens; ++i) {
        positions_.push_back(s.first_position + i);
        sequence_of_.push_back(static_cast<std::uint32_t>(block_tables_.size()));
      }
      block_tables_.push_back(s.block_table);
      next += s.n_tokens;
      if (s.n_wanted > s.n_tokens) return refuse("A sequence wants more rows of logits than it has.");
      for (std::uint32_t token = next - s.n_wanted; token < next; ++token) {
        const auto row = static_cast<std::uint32_t>(wanted_.size());
        const std::uint32_t of = batch.candidates_of != 0 ? batch.candidates_of : limits.vocab_size;
        if (s.n_candidates > limits.max_candidates || s.n_candidates > of || of > limits.vocab_size)
          return refuse("More candidates than the device gives, or than the vocabulary has.");
        if (s.n_candidates > 0) {
          top_k_.push_back({row, s.n_candidates, of, s.want_exp_sum});
        } else {
          whole_.push_back(row);
        }
        wanted_.push_back(token);
      }
      if (s.n_tokens > 1) one_row_each_ = false;
    }
    if (next != batch.tokens.size()) return refuse("The sequences of a step do not cover its tokens.");
    if (wanted_.size() > limits.logit_rows)
      return refuse("More rows of logits than the device was made for.");
    return {};
  }

  graph::StepInputs inputs() const {
    graph::StepInputs inputs;
    inputs.tokens = tokens_;
    inputs.positions = positions_;
    inputs.sequence_of = sequence_of_;
    inputs.block_tables = block_tables_;
    inputs.wanted = wanted_;
    inputs.top_k = top_k_;
    inputs.one_row_each = one_row_each_;
    return inputs;
  }
  // Places in the step's rows of logits, ascending: those wanted whole, and those of which candidates are.
  std::span<const std::uint32_t> whole() const noexcept { return whole_; }
  std::span<const graph::TopK> top_k() const noexcept { return top_k_; }

 private:
  std::span<const Token> tokens_;
  std::vector<std::uint32_t> positions_, sequence_of_, wanted_, whole_;
  std::vector<graph::TopK> top_k_;
  std::vector<std::span<const std::uint32_t>> block_tables_;
  bool one_row_each_ = true;
};

}  // namespace flyball::device
