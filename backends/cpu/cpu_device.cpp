#include "backends/cpu/cpu_device.hpp"

#include <algorithm>
#include <string>

#include "backends/cpu/cpu_ops.hpp"
#include "backends/cpu/weights.hpp"
#include "backends/device/step_rows.hpp"
#include "backends/device/thread_pool.hpp"
#include "backends/graph/decoder.hpp"

namespace flyball::cpu {
namespace {

class CpuExecutor final : public device::Executor {
 public:
  CpuExecutor(const model::ModelFile& model, const CpuDeviceOptions& options, std::uint32_t threads)
      : model_(model), options_(options), pool_(threads) {}

  Result<void> load(const kernels::cpu::Kernels& kernels) {
    auto weights = CpuWeights::load(model_, kernels, pool_, options_.expert_bytes_limit, options_.progress);
    if (!weights) return pass(weights);
    weights_ = std::move(*weights);
    auto ops = CpuOps::make(model_.config(), kernels, weights_, pool_, options_.max_step_tokens,
                            options_.max_logit_rows);
    if (!ops) return pass(ops);
    ops_ = std::move(*ops);
    ops_->time_into(options_.times);
    return {};
  }

  graph::MemoryPlan memory() const override {
    graph::MemoryPlan plan;
    plan.weight_bytes = weights_.bytes();
    plan.kv_bytes = ops_->kv_bytes();
    plan.scratch_bytes = ops_->scratch_bytes();
    return plan;
  }

  std::vector<std::span<const std::byte>> held_memory() const override {
    auto out = weights_.held_memory();
    for (const std::span<const std::byte> one : {ops_->kv(), ops_->scratch()})
      if (!one.empty()) out.push_back(one);
    return out;
  }

  Result<void> reserve_kv(const graph::KvLayout& layout, std::uint32_t n_blocks) override {
    if (auto ok = ops_->reserve_kv(layout, n_blocks); !ok) return pass(ok);
    limits_ = {options_.max_step_tokens, options_.max_logit_rows, model_.config().vocab_size, n_blocks,
               layout.block_size};
    return {};
  }

  // The caller's thread is one of the pool's, so the step is over when this returns.
  Result<device::StepId> submit(const device::StepBatch& batch,
                                std::span<const device::BlockCopy> copies) override {
    if (auto ok = rows_.lay_out(batch, copies, limits_); !ok) return pass(ok);
    for (const device::BlockCopy& copy : copies) ops_->copy_block(copy.from, copy.to);
    std::function<bool()> go_on;
    if (batch.stop != nullptr) go_on = [stop = batch.stop] { return !stop->load(std::memory_order_relaxed); };
    if (!graph::decode_step(model_.config(), rows_.inputs(), *ops_, go_on))
      return fail(ErrorCode::cancelled, "Stopped.");
    return ++step_;
  }

  Result<device::StepOutput> wait(device::StepId step) override {
    if (step != step_) return fail(ErrorCode::internal, "Only the last step can be waited for.");
    return device::StepOutput{
        {ops_->buffer(graph::Buffer::logits), rows_.whole().size() * model_.config().vocab_size}, {}};
  }

  std::uint64_t block_bytes() const override { return ops_->block_bytes(); }
  Result<void> read_blocks(std::span<const device::BlockRead> blocks) override {
    for (const device::BlockRead& read : blocks) ops_->read_block(read.block, read.to);
    return {};
  }
  Result<void> write_blocks(std::span<const device::BlockWrite> blocks) override {
    for (const device::BlockWrite& write : blocks) ops_->write_block(write.block, write.from);
    return {};
  }
  std::uint32_t max_step_tokens() const override { return options_.max_step_tokens; }
  bool can_stop() const noexcept override { return true; }

 private:
  const model::ModelFile& model_;
  CpuDeviceOptions options_;
  device::ThreadPool pool_;
  CpuWeights weights_;
  std::unique_ptr<CpuOps> ops_;
  device::StepId step_ = 0;
  device::StepLimits limits_;
  device::StepRows rows_;
};

}  // namespace

Result<std::unique_ptr<device::Executor>> make_cpu_executor(const model::ModelFile& model,
                                                            const CpuDeviceOptions& options) {
  const kernels::cpu::Isa isa = options.isa.value_or(kernels::cpu::best_isa());
  if (!kernels::cpu::supported(isa))
    return fail(ErrorCode::unsupported_value,
                std::string("This processor has no ") + kernels::cpu::to_string(isa) + ".", "isa");
  // More threads than processors would only wait for each other.
  const std::uint32_t processors = device::usable_processors();
  const std::uint32_t threads = options.threads == 0 ? processors : std::min(options.threads, processors);
  auto executor = std::make_unique<CpuExecutor>(model, options, threads);
  if (auto ok = executor->load(kernels::cpu::kernels_for(isa)); !ok) return pass(ok);
  return executor;
}

}  // namespace flyball::cpu
