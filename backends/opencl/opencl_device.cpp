#include "backends/opencl/opencl_device.hpp"

#include <string>
#include <utility>
#include <vector>

#include "backends/engine/step_rows.hpp"
#include "backends/graph/decoder.hpp"
#include "backends/opencl/opencl_ops.hpp"

namespace flyball::opencl {
namespace {

class OpenClExecutorImpl final : public OpenClExecutor {
 public:
  OpenClExecutorImpl(const model::ModelFile& model, const OpenClDeviceOptions& options,
                     std::shared_ptr<Device> device)
      : model_(model),
        options_(options),
        device_(std::move(device)),
        programs_(device_, options.program_cache),
        logits_(std::make_unique<std::vector<float>>(std::size_t{options.max_logit_rows} *
                                                     model.config().vocab_size)) {}

  ~OpenClExecutorImpl() override {
    // A device that does not come to rest may still read and write; what it touches is left to the end of the
    // process.
    if (waiting_ && !device_->settle()) {
      (void)logits_.release();
      (void)new Weights(std::move(weights_));  // it reads these
      (void)ops_.release();
    }
  }

  Result<void> load() {
    const DeviceFacts& f = device_->facts();
    Result<Weights> weights = fail(ErrorCode::internal, "");
    if (f.unified && !options_.upload) weights = Weights::load(*device_, model_, true, options_.progress);
    // A processor reads any memory; other drivers may not take a file's.
    if (!weights && (options_.upload || !f.processor || !f.unified))
      weights = Weights::load(*device_, model_, false, options_.progress);
    if (!weights) return std::unexpected(std::move(weights.error()));
    weights_ = std::move(*weights);
    auto ops = OpenClOps::make(*device_, programs_, model_.config(), weights_,
                               {options_.max_step_tokens, options_.max_logit_rows});
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
    if (auto ok = ops_->reserve_kv(layout, n_blocks); !ok) return ok;
    limits_ = {options_.max_step_tokens, options_.max_logit_rows, model_.config().vocab_size, n_blocks,
               layout.block_size};
    return device_->finish();
  }

  Result<engine::StepId> submit(const engine::StepBatch& batch,
                                std::span<const engine::BlockCopy> copies) override {
    if (auto ok = rows_.lay_out(batch, copies, limits_); !ok) return std::unexpected(std::move(ok.error()));
    if (waiting_)  // the last step's inputs are still being read
      if (auto ok = device_->finish(); !ok) return std::unexpected(std::move(ok.error()));
    waiting_ = true;
    for (const engine::BlockCopy& copy : copies) ops_->copy_block(copy.from, copy.to);
    graph::decode_step(model_.config(), rows_.inputs(), *ops_);
    if (auto ok = ops_->take_failure(); !ok) return std::unexpected(std::move(ok.error()));
    if (auto ok = device_->flush(); !ok) return std::unexpected(std::move(ok.error()));
    return ++step_;
  }

  Result<std::span<const float>> wait(engine::StepId step) override {
    if (step != step_) return fail(ErrorCode::internal, "Only the last step can be waited for.");
    const std::span<float> rows(logits_->data(), rows_.wanted() * model_.config().vocab_size);
    auto ok = rows.empty()
                  ? device_->finish()
                  : device_->read(ops_->buffer(graph::Buffer::logits), 0, std::as_writable_bytes(rows));
    if (!ok) return std::unexpected(std::move(ok.error()));
    waiting_ = false;
    // After a step, because some drivers finish compiling at the first launch.
    if (std::exchange(stored_, programs_.compiled()) != programs_.compiled()) programs_.store();
    return rows;
  }

  std::uint32_t max_step_tokens() const override { return options_.max_step_tokens; }
  const DeviceFacts& facts() const noexcept override { return device_->facts(); }
  OpenClStatistics statistics() const noexcept override {
    return {programs_.compiled(), programs_.from_cache(), weights_.in_place()};
  }
  std::uint64_t free_bytes() const noexcept override { return device_->free_bytes(); }

 private:
  const model::ModelFile& model_;
  OpenClDeviceOptions options_;
  std::shared_ptr<Device> device_;
  Programs programs_;
  Weights weights_;
  std::unique_ptr<OpenClOps> ops_;
  std::unique_ptr<std::vector<float>> logits_;  // [rows wanted, vocab] of the last step
  engine::StepLimits limits_;
  engine::StepRows rows_;
  engine::StepId step_ = 0;
  bool waiting_ = false;
  std::uint32_t stored_ = 0;  // programs compiled when the cache was last written
};

}  // namespace

Result<std::unique_ptr<OpenClExecutor>> make_opencl_executor(const model::ModelFile& model,
                                                             const OpenClDeviceOptions& options) {
  auto device = Device::open(options.device);
  if (!device) return std::unexpected(std::move(device.error()));
  auto executor = std::make_unique<OpenClExecutorImpl>(model, options, std::move(*device));
  if (auto ok = executor->load(); !ok) return std::unexpected(std::move(ok.error()));
  return executor;
}

}  // namespace flyball::opencl
