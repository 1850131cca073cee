#include "backends/opencl/opencl_device.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "backends/device/candidate_pairs.hpp"
#include "backends/device/memory.hpp"
#include "backends/device/step_rows.hpp"
#include "backends/graph/layer_split.hpp"
#include "backends/opencl/stage.hpp"

namespace flyball::opencl {
namespace {

class OpenClExecutorImpl final : public OpenClExecutor {
 public:
  OpenClExecutorImpl(const model::ModelFile& model, const OpenClDeviceOptions& options)
      : model_(model),
        shared_(std::make_unique<Shared>(Shared{options, {}, {}, {}})),
        options_(shared_->options) {
    shared_->logits.resize(std::size_t{options.max_logit_rows} * model.config().vocab_size);
    shared_->pairs.resize(std::size_t{options.max_logit_rows} * (1 + graph::kMaxCandidates));
  }

  ~OpenClExecutorImpl() override {
    // Of a device that does not come to rest, all that it may still read and write is left to the end of the
    // process: its own stage, and what the others handed to it or have from it.
    if (!std::ranges::all_of(shared_->stages, [](const auto& stage) { return stage->at_rest(); }))
      (void)shared_.release();
  }

  Result<void> load(std::vector<std::shared_ptr<Device>> devices) {
    const auto planned = divide(devices);
    if (!planned) return pass(planned);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      stages().push_back(
          std::make_unique<Stage>(model_, options_, std::move(devices[i]), (*planned)[i].part));
      if (auto ok = stages().back()->load(progress_of(*planned, i)); !ok) return pass(ok);
    }
    return {};
  }

  graph::MemoryPlan memory() const override {
    graph::MemoryPlan all;
    for (const auto& stage : shared_->stages) {
      const graph::MemoryPlan own = stage->memory();
      all.weight_bytes += own.weight_bytes;
      all.kv_bytes += own.kv_bytes;
      all.scratch_bytes += own.scratch_bytes;
    }
    return all;
  }

  Result<void> reserve_kv(const graph::KvLayout& layout, std::uint32_t n_blocks) override {
    for (const auto& stage : stages())
      if (auto ok = stage->reserve_kv(layout, n_blocks); !ok) return pass(ok);
    limits_ = {options_.max_step_tokens, options_.max_logit_rows, model_.config().vocab_size, n_blocks,
               layout.block_size,        graph::kMaxCandidates};
    block_bytes_ = layout.block_bytes();
    return warm_up();
  }

  Result<device::StepId> submit(const device::StepBatch& batch,
                                std::span<const device::BlockCopy> copies) override {
    if (auto ok = run(batch, copies, false); !ok) return pass(ok);
    return ++step_;
  }

  Result<device::StepOutput> wait(device::StepId step) override {
    if (step != step_) return fail(ErrorCode::internal, "Only the last step can be waited for.");
    auto output = read_results();
    if (output) store_programs();
    return output;
  }

  std::uint64_t block_bytes() const override { return block_bytes_; }
  Result<void> read_blocks(std::span<const device::BlockRead> blocks) override {
    for (const auto& stage : stages())
      if (auto ok = stage->read_blocks(blocks); !ok) return pass(ok);
    return {};
  }
  Result<void> write_blocks(std::span<const device::BlockWrite> blocks) override {
    for (const auto& stage : stages())
      if (auto ok = stage->write_blocks(blocks); !ok) return pass(ok);
    return {};
  }

  std::uint32_t max_step_tokens() const override { return options_.max_step_tokens; }
  std::uint32_t max_candidates() const override { return graph::kMaxCandidates; }
  bool can_stop() const noexcept override { return true; }
  std::vector<DevicePart> parts() const override {
    std::vector<DevicePart> parts;
    for (const auto& stage : shared_->stages)
      parts.push_back({stage->device().facts(), stage->part(), stage->device().free_bytes()});
    return parts;
  }
  std::vector<DeviceShare> shares() const override {
    std::vector<DeviceShare> shares;
    for (const auto& stage : shared_->stages) {
      const graph::MemoryPlan own = stage->memory();
      shares.push_back({stage->device().facts().id, stage->part().begin, stage->part().n_layers(),
                        own.weight_bytes, own.kv_bytes, own.scratch_bytes});
    }
    return shares;
  }
  OpenClStatistics statistics() const noexcept override {
    OpenClStatistics all;
    all.weights_in_place = true;
    all.result_bytes = result_bytes_;
    for (const auto& stage : shared_->stages) {
      all.programs_compiled += stage->programs().compiled();
      all.programs_from_cache += stage->programs().from_cache();
      all.weights_in_place = all.weights_in_place && stage->weights().in_place();
      all.products_planned += stage->products().planned();
      all.products_tuned += stage->products().tuned();
    }
    return all;
  }

 private:
  // What the devices may read and write, and what that rests on.
  struct Shared {
    OpenClDeviceOptions options;                 // keeps the model's bytes
    std::vector<float> logits;                   // [rows wanted whole, vocab] of the last step
    std::vector<decode::Likely> pairs;           // as graph::Ops::top_k says
    std::vector<std::unique_ptr<Stage>> stages;  // in order of layers
  };
  std::vector<std::unique_ptr<Stage>>& stages() noexcept { return shared_->stages; }

  // One device takes all, and says itself what does not fit.
  Result<std::vector<graph::PlannedPart>> divide(std::span<const std::shared_ptr<Device>> devices) const {
    if (devices.size() == 1) return std::vector{graph::PlannedPart{graph::whole_model(model_.config()), {}}};
    std::vector<graph::DeviceRoom> rooms;
    for (const auto& device : devices)
      rooms.push_back({device->facts().id, device->free_bytes(), device->facts().unified});
    graph::share_machine_memory(rooms, device::available_memory());
    return graph::split_layers(
        graph::part_sizes(model_, options_.least_kv_bytes, options_.max_step_tokens, options_.max_logit_rows),
        rooms);
  }

  // The ith part's progress, as that of the whole model.
  graph::LoadProgress progress_of(std::span<const graph::PlannedPart> parts, std::size_t i) const {
    if (!options_.progress || parts.size() == 1) return options_.progress;
    std::uint64_t before = 0, total = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (p < i) before += parts[p].memory.weight_bytes;
      total += parts[p].memory.weight_bytes;
    }
    const auto share = static_cast<double>(parts[i].memory.weight_bytes);
    return [this, before, total, share](std::uint64_t done, std::uint64_t all) {
      const double loaded = static_cast<double>(done) / static_cast<double>(all);
      options_.progress(before + static_cast<std::uint64_t>(loaded * share), total);
    };
  }

  // first_layers: of every stage its first layer alone. The residual rows of all stages but the last are
  // waited for here, some kilobytes a row through memory that the next device has pinned: devices that could
  // copy to each other would have to share a context, and with it each other's failures.
  Result<void> run(const device::StepBatch& batch, std::span<const device::BlockCopy> copies,
                   bool first_layers) {
    if (auto ok = rows_.lay_out(batch, copies, limits_); !ok) return pass(ok);
    for (const auto& stage : stages())  // all of them: the copies of a step that is given up are done
      if (auto ok = stage->begin(copies); !ok) return pass(ok);
    for (std::size_t i = 0; i < stages().size(); ++i) {
      Stage& stage = *stages()[i];
      if (i > 0)
        if (auto ok = stages()[i - 1]->read(graph::Buffer::residual, 0, stage.inbox(batch.tokens.size()));
            !ok)
          return ok;
      if (auto ok = stage.submit(rows_.inputs(), first_layers, batch.stop); !ok) return pass(ok);
    }
    return {};
  }

  // One layer of a prompt's step and of a late token's on every device, so that the first request compiles
  // nothing; the matrix products have been met. Their KV goes where nobody's is yet.
  Result<void> warm_up() {
    const std::uint32_t positions = std::min(limits_.kv_blocks * limits_.block_size,
                                             graph::longest_sequence(options_.context, model_.config()));
    const std::vector<device::BlockId> table(positions / limits_.block_size + 1, 0);
    const std::array<Token, 2> tokens{};
    device::StepSequence prompt{0, std::min({2U, limits_.step_tokens, positions}), 0, table, true};
    device::StepSequence late{0, 1, positions - 1, table, true};
    prompt.n_candidates = late.n_candidates = 1;
    for (const device::StepSequence& sequence : {prompt, late}) {
      if (auto ok = run({std::span(tokens).first(sequence.n_tokens), {&sequence, 1}}, {}, true); !ok)
        return ok;
      if (auto ok = stages().back()->wait(); !ok) return pass(ok);
    }
    store_programs();
    return {};
  }

  void store_programs() {
    for (const auto& stage : stages()) stage->store_programs();
  }

  // Only what was wanted is read; a step of which nothing is wanted is waited for all the same.
  Result<device::StepOutput> read_results() {
    const std::uint64_t row_bytes = sizeof(float) * std::uint64_t{model_.config().vocab_size};
    const std::size_t n_whole = rows_.whole().size();
    const auto logits = std::span(shared_->logits).first(n_whole * model_.config().vocab_size);
    std::size_t n_pairs = 0;
    for (const graph::TopK& t : rows_.top_k()) n_pairs += 1 + t.k;
    const auto pairs = std::span(shared_->pairs).first(n_pairs);
    if (logits.empty() && pairs.empty())
      if (auto ok = stages().back()->wait(); !ok) return pass(ok);
    if (auto ok = read(graph::Buffer::candidates, 0, std::as_writable_bytes(pairs)); !ok) return pass(ok);
    for (std::size_t i = 0, end = 0; i < n_whole; i = end) {  // rows that follow each other at once
      const std::uint32_t row = rows_.whole()[i];
      for (end = i + 1; end < n_whole && rows_.whole()[end] == row + (end - i);) ++end;
      auto ok = read(graph::Buffer::logits, row * row_bytes,
                     std::as_writable_bytes(logits).subspan(i * row_bytes, (end - i) * row_bytes));
      if (!ok) return pass(ok);
    }

    device::read_candidates(rows_.top_k(), pairs.data(), candidates_);
    return device::StepOutput{logits, candidates_};
  }
  Result<void> read(graph::Buffer from, std::uint64_t at, std::span<std::byte> to) {
    if (to.empty()) return {};
    result_bytes_ += to.size();
    return stages().back()->read(from, at, to);
  }

  const model::ModelFile& model_;
  std::unique_ptr<Shared> shared_;
  const OpenClDeviceOptions& options_;
  std::vector<decode::Candidates> candidates_;
  std::uint64_t result_bytes_ = 0, block_bytes_ = 0;
  device::StepLimits limits_;
  device::StepRows rows_;
  device::StepId step_ = 0;
};

}  // namespace

Result<std::unique_ptr<OpenClExecutor>> make_opencl_executor(const model::ModelFile& model,
                                                             const OpenClDeviceOptions& options) {
  auto devices = Device::open_all(options.devices);
  if (!devices) return pass(devices);
  auto executor = std::make_unique<OpenClExecutorImpl>(model, options);
  if (auto ok = executor->load(std::move(*devices)); !ok) return pass(ok);
  return executor;
}

}  // namespace flyball::opencl
