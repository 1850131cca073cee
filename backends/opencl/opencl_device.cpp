#include "backends/opencl/opencl_device.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "backends/engine/step_rows.hpp"
#include "backends/graph/decoder.hpp"
#include "backends/opencl/opencl_ops.hpp"
#include "backends/opencl/tuning_db.hpp"

namespace flyball::opencl {
namespace {

class OpenClExecutorImpl final : public OpenClExecutor {
 public:
  OpenClExecutorImpl(const model::ModelFile& model, const OpenClDeviceOptions& options,
                     std::shared_ptr<Device> device)
      : model_(model),
        options_(options),
        device_(std::move(device)),
        programs_(device_, options.program_cache, options.warn),
        results_(std::make_unique<Results>()) {
    results_->logits.resize(std::size_t{options.max_logit_rows} * model.config().vocab_size);
    results_->pairs.resize(std::size_t{options.max_logit_rows} * (1 + graph::kMaxCandidates));
  }

  ~OpenClExecutorImpl() override {
    // A device that does not come to rest may still read and write; what it touches is left to the end of the
    // process.
    if (device_->at_rest()) return;
    (void)results_.release();
    (void)ops_.release();
    (void)new Weights(std::move(weights_));
    (void)new std::shared_ptr<const void>(std::move(options_.model_owner));
  }

  Result<void> load() {
    const DeviceFacts& f = device_->facts();
    Result<Weights> weights = fail(ErrorCode::internal, "");
    if (f.unified && !options_.upload) weights = Weights::load(*device_, model_, true, options_.progress);
    // A processor reads any memory; other drivers may not take a file's.
    if (!weights && device_->at_rest() && (options_.upload || !f.processor || !f.unified))
      weights = Weights::load(*device_, model_, false, options_.progress);
    if (!weights) return std::unexpected(std::move(weights.error()));
    weights_ = std::move(*weights);
    load_tuning_table();
    auto ops = OpenClOps::make(*device_, programs_, model_.config(), weights_,
                               {options_.max_step_tokens, options_.max_logit_rows}, tuning_);
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
               layout.block_size,        graph::kMaxCandidates};
    return warm_up();
  }

  Result<engine::StepId> submit(const engine::StepBatch& batch,
                                std::span<const engine::BlockCopy> copies) override {
    return enqueue(model_.config(), batch, copies);
  }

  Result<engine::StepOutput> wait(engine::StepId step) override {
    if (step != step_) return fail(ErrorCode::internal, "Only the last step can be waited for.");
    auto output = read_results();
    if (!output) return output;
    store();
    return output;
  }

  std::uint32_t max_step_tokens() const override { return options_.max_step_tokens; }
  std::uint32_t max_candidates() const override { return graph::kMaxCandidates; }
  bool can_stop() const noexcept override { return true; }
  const DeviceFacts& facts() const noexcept override { return device_->facts(); }
  OpenClStatistics statistics() const noexcept override {
    return {programs_.compiled(), programs_.from_cache(),     weights_.in_place(),
            result_bytes_,        ops_->products().planned(), ops_->products().tuned()};
  }
  std::uint64_t free_bytes() const noexcept override { return device_->free_bytes(); }

 private:
  // After a step, because some drivers finish compiling at the first launch.
  void store() {
    if (std::exchange(stored_, programs_.compiled()) != programs_.compiled()) programs_.store();
  }

  Result<engine::StepId> enqueue(const model::ModelConfig& config, const engine::StepBatch& batch,
                                 std::span<const engine::BlockCopy> copies) {
    if (auto ok = rows_.lay_out(batch, copies, limits_); !ok) return std::unexpected(std::move(ok.error()));
    if (device_->busy())  // the last step's inputs are still being read
      if (auto ok = device_->finish(); !ok) return std::unexpected(std::move(ok.error()));
    for (const engine::BlockCopy& copy : copies) ops_->copy_block(copy.from, copy.to);
    std::function<bool()> go_on;
    Handle<cl_event> before_last;  // the layer enqueued last
    Result<void> paced;
    if (batch.stop != nullptr)
      go_on = [&] {
        if (!batch.stop->load()) paced = keep_pace(before_last);
        return paced && !batch.stop->load();
      };
    const bool whole = graph::decode_step(config, rows_.inputs(), *ops_, go_on);
    if (auto ok = ops_->take_failure(); !ok) return std::unexpected(std::move(ok.error()));
    if (!paced) return std::unexpected(std::move(paced.error()));
    if (!whole) return fail(ErrorCode::cancelled, "Stopped.");
    if (auto ok = device_->flush(); !ok) return std::unexpected(std::move(ok.error()));
    return ++step_;
  }

  // What is enqueued is computed: of a step that may be given up it is a layer beyond the one that runs,
  // which is what keeps the device from waiting for the host. Waits until that is so.
  Result<void> keep_pace(Handle<cl_event>& before_last) {
    auto now = device_->mark();
    if (!now) return std::unexpected(std::move(now.error()));
    const Handle<cl_event> reached = std::exchange(before_last, std::move(*now));
    return reached ? device_->wait(reached) : device_->flush();
  }

  // One layer of a prompt's step and of a late token's, so that the first request compiles nothing; the
  // matrix products have been met. Their KV goes where nobody's is yet.
  Result<void> warm_up() {
    model::ModelConfig one = model_.config();
    one.n_layers = 1;
    const std::uint32_t positions = std::min(limits_.kv_blocks * limits_.block_size, one.context_length);
    const std::vector<engine::BlockId> table(positions / limits_.block_size + 1, 0);
    const std::array<Token, 2> tokens{};
    engine::StepSequence prompt{0, std::min({2U, limits_.step_tokens, positions}), 0, table, true};
    engine::StepSequence late{0, 1, positions - 1, table, true};
    prompt.n_candidates = late.n_candidates = 1;
    for (const engine::StepSequence& sequence : {prompt, late}) {
      const auto step = enqueue(one, {std::span(tokens).first(sequence.n_tokens), {&sequence, 1}}, {});
      if (!step) return std::unexpected(step.error());
      if (auto ok = device_->finish(); !ok) return ok;
    }
    store();
    return {};
  }

  struct Results {                      // of the last step, as the device wrote them
    std::vector<float> logits;          // [rows wanted whole, vocab]
    std::vector<decode::Likely> pairs;  // as graph::Ops::top_k says
  };

  // Only what was wanted is read; a step of which nothing is wanted is waited for all the same.
  Result<engine::StepOutput> read_results() {
    const std::uint64_t row_bytes = sizeof(float) * std::uint64_t{model_.config().vocab_size};
    const std::size_t n_whole = rows_.whole().size();
    const auto logits = std::span(results_->logits).first(n_whole * model_.config().vocab_size);
    std::size_t n_pairs = 0;
    for (const graph::TopK& t : rows_.top_k()) n_pairs += 1 + t.k;
    const auto pairs = std::span(results_->pairs).first(n_pairs);
    if (logits.empty() && pairs.empty())
      if (auto ok = device_->finish(); !ok) return std::unexpected(std::move(ok.error()));
    if (auto ok = read(graph::Buffer::candidates, 0, std::as_writable_bytes(pairs)); !ok)
      return std::unexpected(std::move(ok.error()));
    for (std::size_t i = 0, end = 0; i < n_whole; i = end) {  // rows that follow each other at once
      const std::uint32_t row = rows_.whole()[i];
      for (end = i + 1; end < n_whole && rows_.whole()[end] == row + (end - i);) ++end;
      auto ok = read(graph::Buffer::logits, row * row_bytes,
                     std::as_writable_bytes(logits).subspan(i * row_bytes, (end - i) * row_bytes));
      if (!ok) return std::unexpected(std::move(ok.error()));
    }

    candidates_.clear();
    std::size_t at = 0;
    for (const graph::TopK& t : rows_.top_k()) {
      const decode::Likely& head = pairs[at];
      const auto likeliest = pairs.subspan(at + 1, t.k);
      // A device that names what is no token has gone wrong, too.
      const bool tokens = std::ranges::all_of(
          likeliest, [&](const decode::Likely& l) { return static_cast<std::uint32_t>(l.token) < t.of; });
      candidates_.push_back({likeliest, head.value, head.token == 0 && tokens});
      at += 1 + t.k;
    }
    return engine::StepOutput{logits, candidates_};
  }
  Result<void> read(graph::Buffer from, std::uint64_t at, std::span<std::byte> to) {
    if (to.empty()) return {};
    result_bytes_ += to.size();
    return device_->read(ops_->buffer(from), at, to);
  }

  // What cannot be used costs speed and nothing else.
  void load_tuning_table() {
    const MatmulDevice limits = matmul_device(device_->facts());
    auto db = load_tuning(options_.tuning, {device_->facts().name, device_->facts().driver}, &limits);
    tuning_ = db ? std::move(db->table) : TuningTable(default_tuning(limits));
    if (!db && options_.warn)
      options_.warn("The OpenCL tuning is not used: " + db.error().message +
                    (db.error().where.empty() ? "" : " (" + db.error().where + ")"));
  }

  const model::ModelFile& model_;
  OpenClDeviceOptions options_;
  std::shared_ptr<Device> device_;
  Programs programs_;
  Weights weights_;
  TuningTable tuning_;
  std::unique_ptr<OpenClOps> ops_;
  std::unique_ptr<Results> results_;  // the device writes here
  std::vector<decode::Candidates> candidates_;
  std::uint64_t result_bytes_ = 0;
  engine::StepLimits limits_;
  engine::StepRows rows_;
  engine::StepId step_ = 0;
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
