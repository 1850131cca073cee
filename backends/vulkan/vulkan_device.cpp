#include "backends/vulkan/vulkan_device.hpp"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/device/candidate_pairs.hpp"
#include "backends/device/kernel_cache.hpp"
#include "backends/device/step_rows.hpp"
#include "backends/graph/decoder.hpp"
#include "backends/vulkan/dot_trial.hpp"
#include "backends/vulkan/vulkan_ops.hpp"

namespace flyball::vulkan {
namespace {

// Recordings kept: those of decode at every number of sequences, and what prompts are cut into. The one
// replayed longest ago goes first.
constexpr std::size_t kMostRecordings = 64;

// Deadlines that a step may take to warm up: drivers finish compiling at a kernel's first launch, software
// ones in tens of seconds where the machine has much else to do.
constexpr std::uint32_t kWarmUpDeadlines = 10;

constexpr device::KernelCache::Kind kPipelineFiles{"flyball vulkan pipelines 1\n", ".vkbin"};

class VulkanExecutorImpl final : public VulkanExecutor {
 public:
  VulkanExecutorImpl(const model::ModelFile& model, const VulkanDeviceOptions& options,
                     std::shared_ptr<Device> device)
      : model_(model),
        options_(options),
        device_(std::move(device)),
        cache_(options.pipeline_cache, kPipelineFiles),
        cache_key_(key_of(device_->facts())) {}

  ~VulkanExecutorImpl() override { keep_model(); }

  Result<void> load() {
    device_->load_pipeline_cache(cache_.read(cache_key_));
    if (auto ok = try_integer_dots(); !ok) return pass(ok);
    if (auto ok = load_weights(); !ok) return pass(ok);
    auto ops = VulkanOps::make(*device_, model_.config(), weights_,
                               {options_.max_step_tokens, options_.max_logit_rows, longest()});
    if (!ops) return pass(ops);
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
    if (auto ok = ops_->reserve_kv(layout, n_blocks); !ok) return pass(ok);
    limits_ = {options_.max_step_tokens, options_.max_logit_rows, model_.config().vocab_size, n_blocks,
               layout.block_size,        graph::kMaxCandidates};
    if (auto ok = warm_up(); !ok) return pass(ok);
    cache_.write(cache_key_, device_->pipeline_cache());
    malloc_trim(0);  // what compiling took: a software driver's compiler works in this process's memory
    if (options_.warn && !cache_.trouble().empty()) options_.warn(cache_.trouble());
    return {};
  }

  Result<device::StepId> submit(const device::StepBatch& batch,
                                std::span<const device::BlockCopy> copies) override {
    return enqueue(model_.config(), batch, copies);
  }

  Result<device::StepOutput> wait(device::StepId step) override {
    if (step != step_) return fail(ErrorCode::internal, "Only the last step can be waited for.");
    if (auto ok = device_->wait(); !ok) return pass(ok);
    return results();
  }

  std::uint64_t block_bytes() const override { return ops_->block_bytes(); }
  Result<void> read_blocks(std::span<const device::BlockRead> blocks) override {
    if (auto ok = device_->wait(); !ok) return pass(ok);
    if (maps_kv()) {
      for (const device::BlockRead& read : blocks) ops_->read_block(read.block, read.to);
      return {};
    }
    if (auto ok = reserve_staging(); !ok) return pass(ok);
    for (const device::BlockRead& read : blocks) {
      auto ok = device_->run([&](Commands& commands) {
        commands.barrier();
        ops_->copy_block_out(commands, read.block, staging_, 0);
        commands.barrier();
      });
      if (!ok) return pass(ok);
      std::memcpy(read.to.data(), staging_.host(), read.to.size());
    }
    return {};
  }
  Result<void> write_blocks(std::span<const device::BlockWrite> blocks) override {
    if (auto ok = device_->wait(); !ok) return pass(ok);
    if (maps_kv()) {
      for (const device::BlockWrite& write : blocks) ops_->write_block(write.block, write.from);
      return {};
    }
    if (auto ok = reserve_staging(); !ok) return pass(ok);
    for (const device::BlockWrite& write : blocks) {
      std::memcpy(staging_.host(), write.from.data(), write.from.size());
      auto ok = device_->run([&](Commands& commands) {
        commands.barrier();
        ops_->copy_block_in(commands, write.block, staging_, 0);
        commands.barrier();
      });
      if (!ok) return pass(ok);
    }
    return {};
  }
  std::uint32_t max_step_tokens() const override { return options_.max_step_tokens; }
  std::uint32_t max_candidates() const override { return graph::kMaxCandidates; }
  bool can_stop() const noexcept override { return true; }
  std::vector<DeviceShare> shares() const override {
    const graph::MemoryPlan all = memory();
    return {{device_->facts().id, 0, model_.config().n_layers, all.weight_bytes, all.kv_bytes,
             all.scratch_bytes, to_string(weights_.in())}};
  }
  std::string arithmetic() const override { return device_->facts().integer_dot ? "integer dots" : "floats"; }
  const DeviceFacts& facts() const noexcept override { return device_->facts(); }
  VulkanStatistics statistics() const noexcept override {
    return {weights_.in(), device_->pipelines(), recorded_, replayed_, result_bytes_};
  }
  std::uint64_t free_bytes() const noexcept override { return device_->free_bytes(); }

 private:
  // All that a recording depends on; the rest of a step lies in its buffer.
  struct Shape {
    std::uint32_t layers = 0, rows = 0, wanted = 0, asked = 0;
    bool whole = false;      // of some rows the host wants all logits
    bool by_layers = false;  // it may be given up between them
    // Bounds the range of KV: a decode step whose sequences have one split each merges none. What varies
    // within it lies in grids of the step's buffer.
    StepBuffer::Grids attends_by{};
    bool operator==(const Shape&) const = default;
  };
  struct Recording {
    Shape shape;
    std::vector<Commands> parts;  // submitted in order: one, or the embedding and each layer
  };

  bool maps_kv() const noexcept { return ops_->kv_mapped() && !options_.stage_kv; }
  // Of one block, for devices whose own memory the host does not reach.
  Result<void> reserve_staging() {
    if (staging_) return {};
    auto made = device_->allocate(ops_->block_bytes(), "moving KV", Place::readback);
    if (!made) return pass(made);
    staging_ = std::move(*made);
    return {};
  }

  std::uint32_t longest() const noexcept {
    return graph::longest_sequence(options_.context, model_.config());
  }

  // A device that does not come to rest keeps what it has by itself; what it reads of the file must stay,
  // too.
  void keep_model() {
    if (!device_->at_rest()) (void)new std::shared_ptr<const void>(options_.model_owner);
  }

  // In the place of one that failed, or that was trusted too much: its kernels are gone with it.
  Result<void> open_again() {
    auto again = Device::open(options_.device);
    if (!again) return pass(again);
    device_ = std::move(*again);
    device_->load_pipeline_cache(cache_.read(cache_key_));
    return {};
  }

  // A driver that claims fast integer dot products may compute them wrong, refuse their kernel or be lost
  // over it. No model needs them, and many never meet one.
  Result<void> try_integer_dots() {
    if (!device_->facts().integer_dot) return {};
    const auto right = dots_are_right(*device_);
    if (right && *right) return {};
    if (!right && right.error().code == ErrorCode::insufficient_memory) return pass(right);
    if (options_.warn)
      options_.warn((right ? device_->facts().name + " computes integer dot products wrong."
                           : "Integer dot products fail: " + right.error().message) +
                    " Weights are multiplied as floats instead.");
    options_.device.integer_dot = false;
    return open_again();
  }

  // The file's own pages where that saves a copy; but a driver may refuse them, or take them and fail at the
  // first thing that reads them, and the device with it.
  Result<void> load_weights() {
    WeightsIn in = options_.weights;
    if (in == WeightsIn::automatic) {
      in = Weights::copied(device_->facts());
      if (Weights::in_place(device_->facts(), model_)) {
        auto ok = take_weights(WeightsIn::file);
        if (ok || ok.error().code == ErrorCode::insufficient_memory) return ok;
        if (ok.error().code == ErrorCode::device_lost) {
          if (options_.warn) options_.warn(ok.error().message + " The model file is copied instead.");
          keep_model();
          if (auto opened = open_again(); !opened) return pass(opened);
        }
      }
    }
    return take_weights(in);
  }
  Result<void> take_weights(WeightsIn in) {
    auto weights = Weights::load(*device_, model_, in, options_.weight_window, options_.progress);
    if (!weights) return pass(weights);
    weights_ = std::move(*weights);
    return {};
  }

  static std::string key_of(const DeviceFacts& f) {
    const std::string_view parts[] = {"vulkan pipelines", f.id, f.driver};
    return device::digest_of(parts);
  }

  Result<device::StepId> enqueue(const model::ModelConfig& config, const device::StepBatch& batch,
                                 std::span<const device::BlockCopy> copies) {
    if (auto ok = rows_.lay_out(batch, copies, limits_); !ok) return pass(ok);
    // The last step's inputs are still being read.
    if (auto ok = device_->wait(); !ok) return pass(ok);
    copies_ = {};
    if (!copies.empty())
      if (auto ok = submit_copies(copies); !ok) return pass(ok);
    const graph::StepInputs inputs = rows_.inputs();
    ops_->begin(inputs);
    if (auto ok = ops_->take_failure(); !ok) return pass(ok);
    const auto recording = recording_of(config, inputs, batch.stop != nullptr);
    if (!recording) return pass(recording);
    if (auto ok = submit_parts(**recording, batch.stop); !ok) return pass(ok);
    return ++step_;
  }

  // What is submitted is computed: of a step that may be given up it is a layer beyond the one that runs,
  // which is what keeps the device from waiting for the host.
  Result<void> submit_parts(const Recording& recording, const std::atomic<bool>* stop) {
    for (const Commands& part : recording.parts) {
      if (stop != nullptr) {
        if (auto ok = device_->wait(1); !ok) return pass(ok);
        if (stop->load()) return fail(ErrorCode::cancelled, "Stopped.");
      }
      if (auto ok = device_->submit(part); !ok) return pass(ok);
    }
    return {};
  }

  Result<void> submit_copies(std::span<const device::BlockCopy> copies) {
    auto commands = device_->start_recording();
    if (!commands) return pass(commands);
    copies_ = std::move(*commands);
    ops_->record_into(&copies_);
    for (const device::BlockCopy& copy : copies) ops_->copy_block(copy.from, copy.to);
    ops_->record_into(nullptr);
    if (auto ok = device_->finish_recording(copies_); !ok) return pass(ok);
    return device_->submit(copies_);
  }

  Result<const Recording*> recording_of(const model::ModelConfig& config, const graph::StepInputs& inputs,
                                        bool by_layers) {
    if (std::exchange(generation_, ops_->generation()) != ops_->generation()) recordings_.clear();
    const Shape shape{config.n_layers,
                      static_cast<std::uint32_t>(inputs.tokens.size()),
                      static_cast<std::uint32_t>(inputs.wanted.size()),
                      static_cast<std::uint32_t>(inputs.top_k.size()),
                      !ops_->logits_in_place() && !rows_.whole().empty(),
                      by_layers,
                      ops_->attends_by()};
    const auto known = std::ranges::find(recordings_, shape, &Recording::shape);
    if (known != recordings_.end()) {
      ++replayed_;
      recordings_.splice(recordings_.begin(), recordings_, known);
      return &recordings_.front();
    }
    ++recorded_;
    auto parts = record(config, inputs, shape);
    ops_->record_into(nullptr);
    if (!parts) return pass(parts);
    if (recordings_.size() == kMostRecordings) recordings_.pop_back();
    recordings_.push_front({shape, std::move(*parts)});
    return &recordings_.front();
  }

  Result<std::vector<Commands>> record(const model::ModelConfig& config, const graph::StepInputs& inputs,
                                       const Shape& shape) {
    std::vector<Commands> parts;
    parts.reserve(shape.by_layers ? 1 + config.n_layers : 1);  // the ops hold on to the one that they record
    Result<void> outcome;
    const auto start = [&] {
      auto commands = device_->start_recording();
      if (!commands) {
        outcome = pass(commands);
        return false;
      }
      parts.push_back(std::move(*commands));
      ops_->record_into(&parts.back());
      return true;
    };
    const auto next = [&] {
      outcome = device_->finish_recording(parts.back());
      return outcome && start();
    };
    if (!start()) return pass(outcome);
    const bool whole =
        graph::decode_step(config, inputs, *ops_, shape.by_layers ? std::function<bool()>(next) : nullptr);
    if (!whole) return pass(outcome);
    if (shape.whole) ops_->read_back(shape.wanted);
    if (auto ok = ops_->take_failure(); !ok) return pass(ok);
    if (auto ok = device_->finish_recording(parts.back()); !ok) return pass(ok);
    return parts;
  }

  // Every kernel built, and one layer run with each of them, as a prompt's step and as a late token's: some
  // drivers finish compiling there. The KV goes where nobody's is yet.
  Result<void> warm_up() {
    auto counts = ops_->build_products();
    if (!counts) return pass(counts);
    model::ModelConfig one = model_.config();
    one.n_layers = 1;
    const std::uint32_t positions = std::min(limits_.kv_blocks * limits_.block_size, longest());
    const std::vector<device::BlockId> table(positions / limits_.block_size + 1, 0);
    const std::vector<Token> tokens(limits_.step_tokens);
    std::vector<device::StepSequence> steps{{0, 1, positions - 1, table, true, 1}};
    for (const std::uint32_t n : *counts)
      if (n <= positions) steps.push_back({0, n, 0, table, true, 1});
    for (const device::StepSequence& sequence : steps) {
      const auto step = enqueue(one, {std::span(tokens).first(sequence.n_tokens), {&sequence, 1}}, {});
      if (!step) return pass(step);
      if (auto ok = device_->wait(0, kWarmUpDeadlines); !ok) return pass(ok);
    }
    recordings_.clear();
    recorded_ = replayed_ = 0;
    return {};
  }

  // Rows that lie together in memory the host reads are handed out where they are.
  Result<device::StepOutput> results() {
    const std::size_t vocab = model_.config().vocab_size;
    const std::span<const std::uint32_t> whole = rows_.whole();
    std::span<const float> logits;
    if (!whole.empty()) {
      const float* from = ops_->host_logits();
      if (whole.back() - whole.front() + 1 == whole.size()) {
        logits = {from + whole.front() * vocab, whole.size() * vocab};
      } else {
        logits_.clear();
        for (const std::uint32_t row : whole)
          logits_.insert(logits_.end(), from + row * vocab, from + (row + 1) * vocab);
        result_bytes_ += logits_.size() * sizeof(float);
        logits = logits_;
      }
    }
    device::read_candidates(rows_.top_k(), reinterpret_cast<const decode::Likely*>(ops_->host_candidates()),
                            candidates_);
    return device::StepOutput{logits, candidates_};
  }

  const model::ModelFile& model_;
  VulkanDeviceOptions options_;
  std::shared_ptr<Device> device_;
  device::KernelCache cache_;
  std::string cache_key_;
  Weights weights_;
  std::unique_ptr<VulkanOps> ops_;
  Memory staging_;
  Commands copies_;                  // of the last step
  std::list<Recording> recordings_;  // the one used last first
  std::uint32_t generation_ = 0;     // of the ops, when they were made
  std::vector<float> logits_;        // rows that lie apart
  std::vector<decode::Candidates> candidates_;
  std::uint64_t recorded_ = 0, replayed_ = 0, result_bytes_ = 0;
  device::StepLimits limits_;
  device::StepRows rows_;
  device::StepId step_ = 0;
};

}  // namespace

Result<std::unique_ptr<VulkanExecutor>> make_vulkan_executor(const model::ModelFile& model,
                                                             const VulkanDeviceOptions& options) {
  auto device = Device::open(options.device);
  if (!device) return pass(device);
  auto executor = std::make_unique<VulkanExecutorImpl>(model, options, std::move(*device));
  if (auto ok = executor->load(); !ok) return pass(ok);
  return executor;
}

}  // namespace flyball::vulkan
