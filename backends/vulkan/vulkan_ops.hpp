// The vocabulary of backends/graph/ops.hpp recorded into a command buffer. What differs between steps of one
// shape (tokens, slots, rotations, block tables, work of attention and its grids) is written to the step's
// buffer by begin(), so that a recording serves all of them. Verbs return nothing: the first failure is kept,
// take_failure() tells it. Owns the activations and the KV cache: per layer one buffer of keys and one of
// values, [block][kv head] pages (kernels/formats/kv_page.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/graph/decoder.hpp"
#include "backends/graph/memory_plan.hpp"
#include "backends/vulkan/device.hpp"
#include "backends/vulkan/matmul_plan.hpp"
#include "backends/vulkan/step_buffer.hpp"
#include "backends/vulkan/weights.hpp"

namespace flyball::vulkan {

class VulkanOps final : public graph::Ops {
 public:
  // References outlive the ops. model_unsupported (a kernel that this device never builds),
  // insufficient_memory, unsupported_value (head size, experts), device_lost.
  static Result<std::unique_ptr<VulkanOps>> make(Device& device, const model::ModelConfig& config,
                                                 const Weights& weights, const OpsLimits& limits);
  Result<void> reserve_kv(const graph::KvLayout& layout, std::uint32_t n_blocks);
  // Counts of rows that between them meet every kernel of a step of 1 to step_tokens rows, all of them built
  // by this.
  Result<std::vector<std::uint32_t>> build_products();

  // Verbs go there, until it is null. Outlives that.
  void record_into(Commands* commands);
  void copy_block(std::uint32_t from, std::uint32_t to);
  // The bytes of a block, [keys, values][layer] pages. Where the host has the cache mapped it copies them
  // itself; elsewhere they are recorded, to and from `at` in other memory.
  std::uint64_t block_bytes() const noexcept { return kv_bytes_ / n_blocks_; }
  bool kv_mapped() const noexcept { return kv_mapped_; }
  void read_block(std::uint32_t block, std::span<std::byte> to) const;
  void write_block(std::uint32_t block, std::span<const std::byte> from);
  void copy_block_out(Commands& commands, std::uint32_t block, const Memory& to, std::uint64_t at) const;
  void copy_block_in(Commands& commands, std::uint32_t block, const Memory& from, std::uint64_t at);
  // Logits of the first `rows` wanted to where host_logits() is; nothing where the host reads them in place.
  void read_back(std::uint32_t rows);
  // What went wrong since the last call, if anything did.
  Result<void> take_failure();
  // Of the step begun last: kernels of attention that its recording holds.
  const StepBuffer::Grids& attends_by() const noexcept { return step_.attends_by(); }
  // Counts up when recordings made before are void: a buffer they name has moved.
  std::uint32_t generation() const noexcept { return step_.generation(); }

  const float* host_logits() const noexcept;  // [rows wanted, vocab]
  const std::byte* host_candidates() const noexcept { return buffer(graph::Buffer::candidates).host(); }
  bool logits_in_place() const noexcept { return !readback_; }
  std::uint64_t scratch_bytes() const noexcept { return scratch_bytes_ + step_.bytes(); }
  std::uint64_t kv_bytes() const noexcept { return kv_bytes_; }

  // Writes the step's buffer: the device must have done with the step before.
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
  struct Product {
    const DeviceWeight* w;
    Address y;
  };
  struct Products {  // of one x
    std::array<Product, 4> all{};
    std::size_t count = 0;
    operator std::span<const Product>() const noexcept { return std::span(all).first(count); }
  };
  Products products_of(std::span<const graph::Projection> projections) const;
  // Of the keys, or the values, of one layer.
  std::uint64_t layer_block_bytes() const noexcept { return block_bytes() / (2 * keys_.size()); }

  VulkanOps(Device& device, const model::ModelConfig& config, const Weights& weights, const OpsLimits& limits)
      : device_(device), config_(config), weights_(weights), limits_(limits), step_(device, config, limits) {}
  Result<void> allocate();
  struct Wanted {
    Pipeline* kernel;
    KernelSpec spec;
  };
  Result<void> build_all(std::span<const Wanted> wanted);
  Result<void> build();
  Result<void> build_attention();
  Result<Memory> scratch(std::uint64_t bytes, std::string_view what, Place place);
  void keep(Error error);
  // What follows in this verb reads what came before it.
  void after_all();
  void multiply(std::uint32_t n, Address x, std::span<const Product> products, bool add);
  // Of a step's largest x as products by integer dot take it; 0: none goes by those.
  std::uint64_t most_prepared_bytes() const;
  // Makes it of n rows of x, where one of these products takes it.
  void prepare(std::uint32_t n, Address x, std::span<const Product> products);
  // How many of them, from the first on: those that lie in one of the file's windows. 0: no texel kernel for
  // these, nothing was recorded.
  std::size_t multiply_by_texel(MatmulPush push, std::span<const Product> products);
  bool multiply_by_panel(const MatmulPush& push, std::span<const Product> products, const Texels& w,
                         const Texels& x);
  void multiply_experts(std::uint32_t pairs, Address x, std::uint32_t per_row,
                        std::span<const Product> products);
  // Whether the kernels that take eight values at a time are for all norms and activations of this model.
  Result<bool> in_eights();
  // places: of the push; addresses become bytes into what their sets hold.
  template <class Push>
  void dispatch_eights(const Pipeline& kernel, Push& push, std::initializer_list<Address*> places,
                       const Groups& groups);
  void elementwise(const Pipeline& kernel, std::string_view name, std::uint64_t count, graph::Buffer x,
                   graph::Buffer y);
  const Memory& buffer(graph::Buffer b) const noexcept { return buffers_[static_cast<std::size_t>(b)]; }
  Address at(graph::Buffer b) const noexcept { return buffer(b).address(); }
  std::uint32_t cols(graph::Buffer b) const noexcept { return plan_[static_cast<std::size_t>(b)].cols; }
  // Of kernels whose invocations go on in strides of the grid.
  Groups by_stride(std::string_view kernel, std::uint64_t count) const;
  Groups by_four(std::string_view kernel, std::uint32_t width, std::uint32_t rows) const;

  Device& device_;
  const model::ModelConfig& config_;
  const Weights& weights_;
  OpsLimits limits_;
  std::optional<Error> failure_;
  Commands* commands_ = nullptr;
  bool eights_ = false;  // rms_norm_ and glu_ are those of software devices
  bool fresh_ = true;    // nothing recorded that what follows would have to wait for

  graph::BufferPlan plan_{};
  std::array<Memory, graph::kBufferCount> buffers_;
  Memory readback_;  // of logits, where the host cannot read them in place
  std::uint64_t scratch_bytes_ = 0, kv_bytes_ = 0;
  bool kv_mapped_ = true;  // all of it: where a kind of memory is full, the next layers lie in another
  // A mixture of experts: each row's choice [rows, used], its weights, the pairs sorted by expert, and what
  // the experts' last matrices gave [rows, used, dim].
  Memory expert_ids_, expert_weights_, expert_offsets_, expert_order_, expert_out_;
  Memory prepared_;  // activations of one product, where some go by integer dot
  Pipeline prepare_activations_, embed_, rms_norm_, head_norm_, bias_, glu_, softcap_, add_, rope_kv_store_,
      attend_rows_, attend_split_, attend_combine_, gather_, top_k_, moe_route_, moe_group_, moe_add_;

  std::vector<Memory> keys_, values_;
  Memory partial_;
  bool kv_q8_0_ = false;
  std::uint32_t n_blocks_ = 0, block_size_ = 0, max_splits_ = 0;
  AttendPlan attend_plan_;

  StepBuffer step_;
};

}  // namespace flyball::vulkan
