// The vocabulary of backends/graph/ops.hpp as kernels on an OpenCL device's in-order queue, for the part of a
// model that is there. Verbs return nothing, so the first failure is kept and the rest of the step is not
// enqueued; take_failure() tells it. Owns the activations and the KV cache: per layer one buffer of keys and
// one of values, [block][kv head] pages (kernels/formats/kv_page.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/device/rope_args.hpp"
#include "backends/graph/decoder.hpp"
#include "backends/graph/memory_plan.hpp"
#include "backends/opencl/attend_plan.hpp"
#include "backends/opencl/matmul.hpp"
#include "backends/opencl/programs.hpp"
#include "backends/opencl/weights.hpp"

namespace flyball::opencl {

struct OpsLimits {
  std::uint32_t step_tokens = 0, logit_rows = 0;
  std::uint32_t positions = 0;  // of one sequence
};

class OpenClOps final : public graph::Ops {
 public:
  // References outlive the ops. model_unsupported (a kernel that this device never builds),
  // model_unavailable, insufficient_memory, unsupported_value (head size).
  static Result<std::unique_ptr<OpenClOps>> make(Device& device, Programs& programs,
                                                 const model::ModelConfig& config, const Weights& weights,
                                                 const graph::ModelPart& part, const OpsLimits& limits,
                                                 const TuningTable& tuning);
  // Of the whole model's layout; only the part's layers get any.
  Result<void> reserve_kv(const graph::KvLayout& layout, std::uint32_t n_blocks);
  void copy_block(std::uint32_t from, std::uint32_t to);
  // A part's share of one block, [keys, values][layer of the part] pages, to and from other memory of the
  // device; enqueued.
  std::uint64_t block_bytes() const noexcept { return 2 * part_.n_layers() * layer_block_bytes(); }
  void copy_block_out(std::uint32_t block, const Memory& to, std::uint64_t at);
  void copy_block_in(std::uint32_t block, const Memory& from, std::uint64_t at);
  // What went wrong since the last call, if anything did.
  Result<void> take_failure();
  const Memory& buffer(graph::Buffer b) const noexcept { return buffers_[static_cast<std::size_t>(b)]; }
  std::uint64_t scratch_bytes() const noexcept { return scratch_bytes_; }
  std::uint64_t kv_bytes() const noexcept { return kv_bytes_; }
  const Matmul& products() const noexcept { return *matmul_; }

  void begin(const graph::StepInputs& inputs) override;
  void embed(std::uint32_t n, graph::WeightRef table, graph::Buffer out) override;
  void rms_norm(std::uint32_t n, graph::Buffer x, graph::WeightRef weight, graph::Buffer out) override;
  void matmul(std::uint32_t n, graph::Buffer x, std::span<const graph::Projection> projections) override;
  void bias(std::uint32_t n, graph::Buffer x, graph::WeightRef b) override;
  void head_norm(std::uint32_t n, graph::Buffer x, graph::WeightRef weight) override;
  void rope_kv_store(std::uint32_t n, std::uint32_t layer, graph::Buffer q, graph::Buffer k,
                     graph::Buffer v) override;
  void attend(std::uint32_t n, std::uint32_t layer, graph::Buffer q, graph::Buffer out) override;
  void glu(std::uint32_t n, graph::Buffer gate, graph::Buffer up) override;
  void softcap(std::uint32_t n, graph::Buffer x, float cap) override;
  void add(std::uint32_t n, graph::Buffer x, graph::Buffer y) override;
  void gather_wanted(graph::Buffer x, graph::Buffer out) override;
  void top_k(graph::Buffer logits, graph::Buffer out) override;
  void moe_route(std::uint32_t n, graph::Buffer router) override;
  void moe_matmul(std::uint32_t n, graph::Buffer x, std::span<const graph::Projection> projections) override;
  void moe_glu_matmul_add(std::uint32_t n, graph::Buffer gate, graph::Buffer up, graph::WeightRef down,
                          graph::Buffer residual) override;
  // One kernel instead of two: the product is added as it is stored.
  void matmul_add(std::uint32_t n, graph::Buffer x, graph::WeightRef weight, graph::Buffer residual) override;

 private:
  // A small array of the step's inputs: the host's copy stays until the step is over.
  template <class T>
  struct Input {
    std::vector<T> host;
    Memory buffer;
  };

  OpenClOps(Device& device, const model::ModelConfig& config, const Weights& weights,
            const graph::ModelPart& part, const OpsLimits& limits)
      : device_(device),
        config_(config),
        weights_(weights),
        part_(part),
        limits_(limits),
        rope_tables_(device::make_rope_tables(config)) {}
  Result<void> allocate();
  Result<void> build(Programs& programs, const TuningTable& tuning);
  Result<void> build_attend(Programs& programs);
  // Of the keys, or the values, of one layer.
  std::uint64_t layer_block_bytes() const noexcept { return keys_[part_.begin].bytes / n_blocks_; }
  void lay_out_attention(const graph::StepInputs& inputs);
  template <class T>
  void send(Input<T>& input);
  void keep(Result<void> done);
  template <class... Args>
  void run(const Kernel& kernel, const Grid& grid, const Args&... args);
  std::uint32_t cols(graph::Buffer b) const noexcept { return plan_[static_cast<std::size_t>(b)].cols; }
  // Work-items for rows of `width` values of which each takes eight.
  static Grid elementwise(std::uint32_t width, std::uint32_t rows);
  std::uint32_t lanes(std::uint32_t most) const;  // work-items that share a row: 1 on a processor

  Device& device_;
  const model::ModelConfig& config_;
  const Weights& weights_;
  const graph::ModelPart part_;
  OpsLimits limits_;
  const std::vector<device::RopeTable> rope_tables_;
  std::optional<Error> failure_;

  graph::BufferPlan plan_{};
  std::array<Memory, graph::kBufferCount> buffers_;
  std::uint64_t scratch_bytes_ = 0, kv_bytes_ = 0;

  // A mixture of experts: each row's choice [rows, used], its weights, and what the experts' last matrices
  // gave [rows, used, dim].
  ExpertChoice experts_;
  Memory expert_weights_, expert_out_;
  Kernel moe_route_, moe_add_, bias_, head_norm_;
  Kernel embed_, rms_norm_, rope_kv_store_, attend_split_, attend_combine_, attend_rows_, glu_, softcap_,
      add_, gather_, top_k_;
  std::unique_ptr<Matmul> matmul_;
  std::uint32_t norm_lanes_ = 1, route_lanes_ = 1, top_k_lanes_ = 1;
  AttendPlan attend_;

  Programs* programs_ = nullptr;       // until reserve_kv(): attention's kernels depend on the cache's shape
  std::vector<Memory> keys_, values_;  // by layer of the model
  Memory partial_;                     // [rows, splits, heads, head_dim + 2] of attend_split_
  bool kv_q8_0_ = false;
  std::uint32_t n_blocks_ = 0, block_size_ = 0, split_ = 0, max_splits_ = 0;

  Input<Token> tokens_;
  Input<std::uint32_t> slots_, wanted_, tables_, asked_;  // asked_: as kernels/opencl/top_k.cl has it
  std::vector<Input<float>> rotations_ = std::vector<Input<float>>(rope_tables_.size());  // of each
  struct Work {
    std::uint32_t first_row, n_rows, first_position, table_at;
  };
  Input<Work> split_work_, row_work_;  // decode rows; tiles of prompts
  std::uint32_t step_splits_ = 0;      // most splits of a decode row in this step
};

}  // namespace flyball::opencl
