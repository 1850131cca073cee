#include "backends/opencl/stage.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "backends/opencl/tuning_db.hpp"

namespace flyball::opencl {
namespace {

// Of blocks on their way in or out: some dozen copies a transfer.
constexpr std::uint64_t kStagedBytes = 4ULL << 20U;

}  // namespace

Stage::Stage(const model::ModelFile& model, const OpenClDeviceOptions& options,
             std::shared_ptr<Device> device, const graph::ModelPart& part)
    : model_(model),
      options_(options),
      device_(std::move(device)),
      part_(part),
      programs_(device_, options.program_cache, options.warn) {}

Stage::~Stage() {
  device_->unpin(std::move(inbox_));
}

Result<void> Stage::load(const graph::LoadProgress& progress) {
  const DeviceFacts& f = device_->facts();
  Result<Weights> weights = fail(ErrorCode::internal, "");
  if (f.unified && !options_.upload) weights = Weights::load(*device_, model_, part_, true, progress);
  // A processor reads any memory; other drivers may not take a file's.
  if (!weights && device_->at_rest() && (options_.upload || !f.processor || !f.unified))
    weights = Weights::load(*device_, model_, part_, false, progress);
  if (!weights) return pass(weights);
  weights_ = std::move(*weights);
  if (!part_.embeds) {
    auto pinned = device_->allocate_pinned(inbox(options_.max_step_tokens).size(), "another device's rows");
    if (!pinned) return pass(pinned);
    inbox_ = std::move(*pinned);
  }
  load_tuning_table();
  auto ops = OpenClOps::make(*device_, programs_, model_.config(), weights_, part_,
                             {options_.max_step_tokens, options_.max_logit_rows,
                              graph::longest_sequence(options_.context, model_.config())},
                             tuning_);
  if (!ops) return pass(ops);
  ops_ = std::move(*ops);
  return {};
}

// What cannot be used costs speed and nothing else.
void Stage::load_tuning_table() {
  const DeviceFacts& f = device_->facts();
  const MatmulDevice limits = matmul_device(f);
  auto db = load_tuning(options_.tuning, {f.name, f.driver}, &limits);
  tuning_ = db ? std::move(db->table) : TuningTable(default_tuning(limits));
  if (!db && options_.warn)
    options_.warn("The OpenCL tuning is not used: " + db.error().message +
                  (db.error().where.empty() ? "" : " (" + db.error().where + ")"));
}

Result<void> Stage::reserve_kv(const graph::KvLayout& layout, std::uint32_t n_blocks) {
  return ops_->reserve_kv(layout, n_blocks);
}

Result<void> Stage::begin(std::span<const device::BlockCopy> copies) {
  if (auto ok = wait(); !ok) return pass(ok);
  for (const device::BlockCopy& copy : copies) ops_->copy_block(copy.from, copy.to);
  return ops_->take_failure();
}

std::span<std::byte> Stage::inbox(std::size_t rows) noexcept {
  return {inbox_.host, rows * sizeof(float) * model_.config().dim};
}

Result<void> Stage::submit(const graph::StepInputs& inputs, bool first_layer, const std::atomic<bool>* stop) {
  if (!part_.embeds) {
    auto sent = device_->write_later(ops_->buffer(graph::Buffer::residual), 0, inbox(inputs.tokens.size()));
    if (!sent) return pass(sent);
  }
  graph::ModelPart part = part_;
  if (first_layer) part.end = part.begin + 1;
  std::function<bool()> go_on;
  Handle<cl_event> before_last;  // the layer enqueued last
  Result<void> paced;
  if (stop != nullptr)
    go_on = [&] {
      if (!stop->load()) paced = keep_pace(before_last);
      return paced && !stop->load();
    };
  const bool whole = graph::decode_part(model_.config(), part, inputs, *ops_, go_on);
  if (auto ok = ops_->take_failure(); !ok) return pass(ok);
  if (!paced) return pass(paced);
  if (!whole) return fail(ErrorCode::cancelled, "Stopped.");
  return device_->flush();
}

// What is enqueued is computed: of a step that may be given up it is a layer beyond the one that runs, which
// is what keeps the device from waiting for the host. Waits until that is so.
Result<void> Stage::keep_pace(Handle<cl_event>& before_last) {
  auto now = device_->mark();
  if (!now) return pass(now);
  const Handle<cl_event> reached = std::exchange(before_last, std::move(*now));
  return reached ? device_->wait(reached) : device_->flush();
}

Result<void> Stage::read(graph::Buffer from, std::uint64_t at, std::span<std::byte> to) {
  return device_->read(ops_->buffer(from), at, to);
}

Result<void> Stage::wait() {
  return device_->busy() ? device_->finish() : Result<void>{};
}

Result<std::size_t> Stage::stage_blocks() {
  const std::uint64_t one = ops_->block_bytes();
  const std::uint64_t n = std::max<std::uint64_t>(1, kStagedBytes / one);
  if (!staging_) {
    auto made = device_->allocate(n * one, "moving KV");
    if (!made) return pass(made);
    staged_.resize(n * one);  // may throw: then there is neither
    staging_ = std::move(*made);
  }
  return n;
}

std::array<std::uint64_t, 2> Stage::places(std::uint64_t block_bytes) const noexcept {
  const std::uint64_t layers = model_.config().n_layers;
  const std::uint64_t layer = block_bytes / (2 * layers);
  return {part_.begin * layer, (layers + part_.begin) * layer};
}

Result<void> Stage::read_blocks(std::span<const device::BlockRead> blocks) {
  const auto most = stage_blocks();
  if (!most) return pass(most);
  const std::uint64_t one = ops_->block_bytes();
  for (; !blocks.empty(); blocks = blocks.subspan(std::min(*most, blocks.size()))) {
    const auto now = blocks.first(std::min(*most, blocks.size()));
    for (std::size_t i = 0; i < now.size(); ++i) ops_->copy_block_out(now[i].block, staging_, i * one);
    if (auto ok = ops_->take_failure(); !ok) return pass(ok);
    if (auto ok = device_->read(staging_, 0, std::span(staged_).first(now.size() * one)); !ok)
      return pass(ok);
    for (std::size_t i = 0; i < now.size(); ++i) {
      const auto [keys, values] = places(now[i].to.size());
      std::memcpy(now[i].to.data() + keys, staged_.data() + i * one, one / 2);
      std::memcpy(now[i].to.data() + values, staged_.data() + i * one + one / 2, one / 2);
    }
  }
  return {};
}

Result<void> Stage::write_blocks(std::span<const device::BlockWrite> blocks) {
  const auto most = stage_blocks();
  if (!most) return pass(most);
  const std::uint64_t one = ops_->block_bytes();
  for (; !blocks.empty(); blocks = blocks.subspan(std::min(*most, blocks.size()))) {
    const auto now = blocks.first(std::min(*most, blocks.size()));
    for (std::size_t i = 0; i < now.size(); ++i) {
      const auto [keys, values] = places(now[i].from.size());
      std::memcpy(staged_.data() + i * one, now[i].from.data() + keys, one / 2);
      std::memcpy(staged_.data() + i * one + one / 2, now[i].from.data() + values, one / 2);
    }
    if (auto ok = device_->write(staging_, 0, std::span(staged_).first(now.size() * one)); !ok)
      return pass(ok);
    for (std::size_t i = 0; i < now.size(); ++i) ops_->copy_block_in(now[i].block, staging_, i * one);
    if (auto ok = ops_->take_failure(); !ok) return pass(ok);
  }
  return device_->finish();
}

void Stage::store_programs() {
  if (std::exchange(stored_, programs_.compiled()) != programs_.compiled()) programs_.store();
}

graph::MemoryPlan Stage::memory() const {
  graph::MemoryPlan plan;
  plan.weight_bytes = weights_.bytes();
  plan.kv_bytes = ops_->kv_bytes();
  plan.scratch_bytes = ops_->scratch_bytes();
  return plan;
}

}  // namespace flyball::opencl
