// The vocabulary of backends/graph/ops.hpp on this machine's cores: each verb is a few fork-joins over rows,
// heads or tokens. Owns the activations and the KV bytes: [layer][block][kv head] pages
// (kernels/formats/kv_page.hpp), keys of all layers before the values.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "backends/cpu/expert_groups.hpp"
#include "backends/cpu/weights.hpp"
#include "backends/device/memory.hpp"
#include "backends/device/rope_args.hpp"
#include "backends/device/thread_pool.hpp"
#include "backends/graph/decoder.hpp"
#include "backends/graph/kernel_times.hpp"
#include "backends/graph/memory_plan.hpp"
#include "kernels/cpu/kernels.hpp"

namespace flyball::cpu {

class CpuOps final : public graph::Ops {
 public:
  // References outlive the ops. insufficient_memory.
  static Result<std::unique_ptr<CpuOps>> make(const model::ModelConfig& config,
                                              const kernels::cpu::Kernels& kernels, const CpuWeights& weights,
                                              device::ThreadPool& pool, std::uint32_t step_tokens,
                                              std::uint32_t logit_rows);
  Result<void> reserve_kv(const graph::KvLayout& layout, std::uint32_t n_blocks);
  void copy_block(std::uint32_t from, std::uint32_t to);
  // The bytes of a block are those of device::BlockRead.
  std::uint64_t block_bytes() const noexcept { return layout_.block_bytes(); }
  void read_block(std::uint32_t block, std::span<std::byte> to) const;
  void write_block(std::uint32_t block, std::span<const std::byte> from);
  const float* buffer(graph::Buffer b) const noexcept { return data(b); }
  std::uint64_t scratch_bytes() const noexcept { return scratch_.size(); }
  std::uint64_t kv_bytes() const noexcept { return kv_.size(); }
  std::span<const std::byte> scratch() const noexcept { return {scratch_.data(), scratch_.size()}; }
  std::span<const std::byte> kv() const noexcept { return {kv_.data(), kv_.size()}; }
  // Not null: what each kernel takes is added there, by the wall clock.
  void time_into(graph::KernelTimes* times) noexcept { times_ = times; }

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
  // Rows of gate and up stand by expert between the two: an expert's matrices meet all its rows at once.
  void moe_route(std::uint32_t n, graph::Buffer router) override;
  void moe_matmul(std::uint32_t n, graph::Buffer x, std::span<const graph::Projection> projections) override;
  void moe_glu_matmul_add(std::uint32_t n, graph::Buffer gate, graph::Buffer up, graph::WeightRef down,
                          graph::Buffer residual) override;

  // Overridden because each saves a fork-join, and the second pass over the values while they are in cache.
  void norm_matmul(std::uint32_t n, graph::Buffer x, graph::WeightRef norm,
                   std::span<const graph::Projection> projections) override;
  void attention(std::uint32_t n, std::uint32_t layer, graph::Buffer q, graph::Buffer k, graph::Buffer v,
                 graph::Buffer out) override;
  void matmul_add(std::uint32_t n, graph::Buffer x, graph::WeightRef weight, graph::Buffer residual) override;
  void glu_matmul_add(std::uint32_t n, graph::Buffer gate, graph::Buffer up, graph::WeightRef down,
                      graph::Buffer residual) override;

 private:
  // Matrices that share an input have at most this many element types (a file may mix them within q, k, v).
  static constexpr std::size_t kPreparedSlots = 3;
  struct Prepared {
    std::array<kernels::DType, kPreparedSlots> types{};
    std::size_t n = 0;
    std::size_t slot_of(kernels::DType type) const noexcept;
  };
  // One matrix times n prepared rows: y = w * x, then residual += y where there is one.
  struct Product {
    CpuMatrix w;
    const std::byte* x = nullptr;
    std::uint32_t n = 0;
    float* y = nullptr;  // [n, ldy]
    std::uint32_t ldy = 0;
    float* residual = nullptr;  // [n, ldy] or null
    // Of multiply().
    std::uint32_t step = 0, claims_end = 0;  // rows a claim; claims of this product and those before it
  };

  CpuOps(const model::ModelConfig& config, const kernels::cpu::Kernels& kernels, const CpuWeights& weights,
         device::ThreadPool& pool)
      : config_(config),
        kernels_(kernels),
        weights_(weights),
        pool_(pool),
        rope_tables_(device::make_rope_tables(config)) {}

  float* data(graph::Buffer b) const noexcept { return buffers_[static_cast<std::size_t>(b)]; }
  std::uint32_t cols(graph::Buffer b) const noexcept { return plan_[static_cast<std::size_t>(b)].cols; }
  float* row(graph::Buffer b, std::uint32_t i) const noexcept { return data(b) + std::size_t{i} * cols(b); }
  std::byte* k_layer(std::uint32_t layer) const noexcept;  // [n_blocks, kv heads] pages
  std::byte* v_layer(std::uint32_t layer) const noexcept;

  // The forms that the projections' matrices want of x.
  Prepared forms(std::span<const graph::Projection> projections) const;
  std::byte* prepared_row(std::size_t slot, kernels::DType type, std::uint32_t i,
                          std::uint32_t cols) const noexcept;
  // Brings x into the form each weight type wants; `before(range)` makes those rows of x first.
  template <class Before>
  Prepared prepare(std::string_view kernel, std::uint32_t n, graph::Buffer x,
                   std::span<const graph::Projection> projections, Before&& before);
  void multiply(std::uint32_t n, const Prepared& prepared, std::span<const graph::Projection> projections,
                float* residual = nullptr);
  // A product for each group of rows; y: [places, ldy].
  void add_expert_products(const Prepared& prepared, graph::WeightRef weight, float* y, std::uint32_t ldy);
  // All products_ in one region, split into ranges of their matrices' rows.
  void run_products(std::string_view kernel);
  // All that runs on the pool: `kernel` is what its time is counted as.
  template <class Body>
  void for_each(std::string_view kernel, std::uint32_t n, Body&& body);
  template <class Body>
  void for_rows(std::string_view kernel, std::uint32_t n, Body&& body);
  void glu_rows(kernels::cpu::Range rows, graph::Buffer gate, graph::Buffer up);
  void store_kv(std::uint32_t layer, std::uint32_t i, std::uint32_t kv_head, const float* k, const float* v);
  // Position `at` of a page.
  void store_row(const float* x, std::uint32_t at, std::byte* page);
  void attend_heads(std::uint32_t layer, std::uint32_t i, std::uint32_t kv_head, const float* q, float* out);
  void rotate(std::uint32_t table, std::uint32_t i, float* heads, std::uint32_t n_heads) const;

  const model::ModelConfig& config_;
  const kernels::cpu::Kernels& kernels_;
  const CpuWeights& weights_;
  device::ThreadPool& pool_;
  const std::vector<device::RopeTable> rope_tables_;
  std::vector<Product> products_;

  graph::BufferPlan plan_{};
  device::Pages scratch_;
  std::array<float*, graph::kBufferCount> buffers_{};
  std::array<std::byte*, kPreparedSlots> prepared_{};
  std::uint32_t step_tokens_ = 0;
  float* rotations_ = nullptr;  // [rope tables, step tokens, rope dim / 2, 2]

  // Of a mixture of experts: the last moe_route's choices, U a row, and what down gives.
  std::uint32_t* routed_ = nullptr;  // [rows, U] experts
  float* routed_weights_ = nullptr;  // [rows, U]
  ExpertGroups groups_;
  float* expert_out_ = nullptr;  // [places, dim]

  device::Pages kv_;
  graph::KvLayout layout_;
  std::uint32_t n_blocks_ = 0, block_size_ = 0;
  graph::StepInputs inputs_;
  graph::KernelTimes* times_ = nullptr;
};

}  // namespace flyball::cpu
