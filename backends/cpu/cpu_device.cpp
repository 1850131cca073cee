#include "backends/cpu/cpu_device.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "backends/cpu/cpu_ops.hpp"
#include "backends/cpu/thread_pool.hpp"
#include "backends/cpu/weights.hpp"
#include "backends/graph/decoder.hpp"

namespace flyball::cpu {
namespace {

class CpuExecutor final : public engine::Executor {
 public:
  CpuExecutor(const model::ModelFile& model, const CpuDeviceOptions& options, std::uint32_t threads)
      : model_(model), options_(options), pool_(threads) {}

  Result<void> load(const kernels::cpu::Kernels& kernels) {
    auto weights = CpuWeights::load(model_, kernels, pool_, options_.expert_bytes_limit);
    if (!weights) return std::unexpected(std::move(weights.error()));
    weights_ = std::move(*weights);
    auto ops = CpuOps::make(model_.config(), kernels, weights_, pool_, options_.max_step_tokens,
                            options_.max_logit_rows);
    if (!ops) return std::unexpected(std::move(ops.error()));
    ops_ = std::move(*ops);
    return {};
  }

  graph::MemoryPlan memory() const override {
    graph::MemoryPlan plan;
    plan.weight_bytes = weights_.bytes();
    plan.kv_bytes = ops_->kv_bytes();
    plan.scratch_bytes = ops_->scratch_bytes();
    return plan;
  }

  Result<void> reserve_kv(const graph::KvLayout& layout, std::uint32_t n_blocks) override {
    return ops_->reserve_kv(layout, n_blocks);
  }

  // The caller's thread is one of the pool's, so the step is over when this returns.
  Result<engine::StepId> submit(const engine::StepBatch& batch,
                                std::span<const engine::BlockCopy> copies) override {
    if (auto ok = lay_out(batch); !ok) return std::unexpected(std::move(ok.error()));
    for (const engine::BlockCopy& copy : copies) {
      if (copy.from >= ops_->kv_blocks() || copy.to >= ops_->kv_blocks())
        return fail(ErrorCode::internal, "A block copy names a KV block that was not reserved.");
      ops_->copy_block(copy.from, copy.to);
    }
    graph::StepInputs inputs;
    inputs.tokens = batch.tokens;
    inputs.positions = positions_;
    inputs.sequence_of = sequence_of_;
    inputs.block_tables = block_tables_;
    inputs.wanted = wanted_;
    inputs.one_row_each = one_row_each_;
    graph::decode_step(model_.config(), inputs, *ops_);
    return ++step_;
  }

  Result<std::span<const float>> wait(engine::StepId step) override {
    if (step != step_) return fail(ErrorCode::internal, "Only the last step can be waited for.");
    return std::span(ops_->buffer(graph::Buffer::logits), wanted_.size() * model_.config().vocab_size);
  }

  std::uint32_t max_step_tokens() const override { return options_.max_step_tokens; }

 private:
  // Rows of the batch, checked: an engine's mistake ends a step, it does not write outside a buffer.
  Result<void> lay_out(const engine::StepBatch& batch) {
    const auto refuse = [](const char* what) { return fail(ErrorCode::internal, what); };
    positions_.clear();
    sequence_of_.clear();
    block_tables_.clear();
    wanted_.clear();
    one_row_each_ = true;
    if (batch.tokens.empty() || batch.tokens.size() > options_.max_step_tokens)
      return refuse("A step holds no token, or more than the device was made for.");
    for (const Token token : batch.tokens)
      if (token < 0 || static_cast<std::uint32_t>(token) >= model_.config().vocab_size)
        return refuse("A token is not in the vocabulary.");
    const std::uint32_t block_size = graph::kv_layout(model_.config()).block_size;
    std::uint32_t next = 0;
    for (const engine::StepSequence& s : batch.sequences) {
      if (s.first_token != next || s.n_tokens == 0 || s.n_tokens > batch.tokens.size() - next)
        return refuse("The sequences of a step do not cover its tokens.");
      const std::uint64_t end = std::uint64_t{s.first_position} + s.n_tokens;
      if (s.block_table.size() * block_size < end)
        return refuse("A block table does not cover its positions.");
      for (const engine::BlockId block : s.block_table)
        if (block >= ops_->kv_blocks())
          return refuse("A block table names a KV block that was not reserved.");
      for (std::uint32_t i = 0; i < s.n_tokens; ++i) {
        positions_.push_back(s.first_position + i);
        sequence_of_.push_back(static_cast<std::uint32_t>(block_tables_.size()));
      }
      block_tables_.push_back(s.block_table);
      next += s.n_tokens;
      if (s.want_logits) wanted_.push_back(next - 1);
      if (s.n_tokens > 1) one_row_each_ = false;
    }
    if (next != batch.tokens.size()) return refuse("The sequences of a step do not cover its tokens.");
    if (wanted_.size() > options_.max_logit_rows)
      return refuse("More rows of logits than the device was made for.");
    return {};
  }

  const model::ModelFile& model_;
  CpuDeviceOptions options_;
  ThreadPool pool_;
  CpuWeights weights_;
  std::unique_ptr<CpuOps> ops_;
  engine::StepId step_ = 0;

  // Of the step; kept to reuse their memory.
  std::vector<std::uint32_t> positions_, sequence_of_, wanted_;
  std::vector<std::span<const std::uint32_t>> block_tables_;
  bool one_row_each_ = true;
};

}  // namespace

Result<std::unique_ptr<engine::Executor>> make_cpu_executor(const model::ModelFile& model,
                                                            const CpuDeviceOptions& options) {
  const kernels::cpu::Isa isa = options.isa.value_or(kernels::cpu::best_isa());
  if (!kernels::cpu::supported(isa))
    return fail(ErrorCode::unsupported_value,
                std::string("This processor has no ") + kernels::cpu::to_string(isa) + ".", "isa");
  // More threads than processors would only wait for each other.
  const std::uint32_t processors = usable_processors();
  const std::uint32_t threads = options.threads == 0 ? processors : std::min(options.threads, processors);
  auto executor = std::make_unique<CpuExecutor>(model, options, threads);
  if (auto ok = executor->load(kernels::cpu::kernels_for(isa)); !ok)
    return std::unexpected(std::move(ok.error()));
  return executor;
}

}  // namespace flyball::cpu
