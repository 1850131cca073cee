#include "backends/cpu/cpu_ops.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>

namespace flyball::cpu {
namespace {

using graph::Buffer;
using kernels::cpu::Range;

// Claims a thread gets of one matmul: enough that a slow core (another process is on it) costs little, few
// enough that each claim streams tens of kilobytes and the hardware prefetcher gets going.
constexpr std::uint32_t kClaimsPerThread = 8;
constexpr std::size_t kMaxProjections = 3;
constexpr std::size_t kCommitBytes = std::size_t{16} << 20U;  // a few huge pages

static_assert(model::kMaxHeadDim <= kernels::cpu::kMaxQuantizedHeadDim);

std::uint32_t ceil_div(std::uint32_t a, std::uint32_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace

Result<std::unique_ptr<CpuOps>> CpuOps::make(const model::ModelConfig& config,
                                             const kernels::cpu::Kernels& kernels, const CpuWeights& weights,
                                             device::ThreadPool& pool, std::uint32_t step_tokens,
                                             std::uint32_t logit_rows) {
  std::unique_ptr<CpuOps> ops(new CpuOps(config, kernels, weights, pool));
  ops->plan_ = graph::plan_buffers(config, step_tokens, logit_rows);

  std::size_t bytes = 0;
  const auto reserve = [&](std::size_t size) {
    const std::size_t at = bytes;
    bytes += device::align_up(size);
    return at;
  };
  std::array<std::size_t, graph::kBufferCount> at{};
  for (std::size_t i = 0; i < at.size(); ++i) at[i] = reserve(ops->plan_[i].bytes());
  std::size_t widest = 0;
  for (const CpuMatrix& m : weights.matrices())
    widest = std::max(widest, step_tokens * kernels.activation_bytes(m.type, m.cols));
  const std::uint32_t n_choices = step_tokens * config.n_experts_used;
  if (weights.experts() != nullptr)
    for (const CpuMatrix& m : weights.experts()->shapes())
      widest = std::max(widest, n_choices * kernels.activation_bytes(m.type, m.cols));
  std::array<std::size_t, kPreparedSlots> prepared_at{};
  for (std::size_t& slot : prepared_at) slot = reserve(widest);
  const std::size_t rotations_at =
      reserve(sizeof(float) * device::rope_tables(config) * step_tokens * config.rope_dim());
  const std::size_t routed_at = reserve(sizeof(std::uint32_t) * n_choices);
  const std::size_t routed_weights_at = reserve(sizeof(float) * n_choices);
  const std::size_t expert_out_at = reserve(sizeof(float) * std::size_t{n_choices} * config.dim);

  auto pages = device::Pages::allocate(bytes, "activations");
  if (!pages) return pass(pages);
  ops->scratch_ = std::move(*pages);
  for (std::size_t i = 0; i < at.size(); ++i) ops->buffers_[i] = ops->scratch_.as<float>(at[i]);
  for (std::size_t i = 0; i < kPreparedSlots; ++i)
    ops->prepared_[i] = ops->scratch_.as<std::byte>(prepared_at[i]);
  ops->step_tokens_ = step_tokens;
  ops->rotations_ = ops->scratch_.as<float>(rotations_at);
  ops->routed_ = ops->scratch_.as<std::uint32_t>(routed_at);
  ops->routed_weights_ = ops->scratch_.as<float>(routed_weights_at);
  ops->expert_out_ = ops->scratch_.as<float>(expert_out_at);
  ops->groups_.reserve(config.n_experts, n_choices);
  ops->products_.reserve(kMaxProjections * std::max(1U, config.n_experts));
  return ops;
}

Result<void> CpuOps::reserve_kv(const graph::KvLayout& layout, std::uint32_t n_blocks) {
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(layout.block_bytes(), std::uint64_t{n_blocks}, &bytes))
    bytes = std::numeric_limits<std::uint64_t>::max();  // more than any machine has: refused as such
  auto pages = device::Pages::allocate(bytes, "the KV cache");
  if (!pages) return pass(pages);
  kv_ = std::move(*pages);
  // Taken now: all layers come to their next huge pages in the same step, and zeroing those makes it late.
  pool_.for_each(
      static_cast<std::uint32_t>((kv_.size() + kCommitBytes - 1) / kCommitBytes),
      [&](std::uint32_t i) { kv_.commit(i * kCommitBytes, std::min((i + 1) * kCommitBytes, kv_.size())); });
  layout_ = layout;
  n_blocks_ = n_blocks;
  block_size_ = layout.block_size;
  return {};
}

std::byte* CpuOps::k_layer(std::uint32_t layer) const noexcept {
  return kv_.as<std::byte>() + std::size_t{layer} * n_blocks_ * layout_.n_kv_heads * layout_.page_bytes();
}

std::byte* CpuOps::v_layer(std::uint32_t layer) const noexcept {
  return k_layer(config_.n_layers + layer);
}

void CpuOps::copy_block(std::uint32_t from, std::uint32_t to) {
  const std::size_t bytes = layout_.n_kv_heads * layout_.page_bytes();
  for (std::uint32_t layer = 0; layer < 2 * config_.n_layers; ++layer)
    std::memcpy(k_layer(layer) + to * bytes, k_layer(layer) + from * bytes, bytes);
}

void CpuOps::read_block(std::uint32_t block, std::span<std::byte> to) const {
  const std::size_t bytes = layout_.n_kv_heads * layout_.page_bytes();
  for (std::uint32_t layer = 0; layer < 2 * config_.n_layers; ++layer)
    std::memcpy(to.data() + layer * bytes, k_layer(layer) + block * bytes, bytes);
}

void CpuOps::write_block(std::uint32_t block, std::span<const std::byte> from) {
  const std::size_t bytes = layout_.n_kv_heads * layout_.page_bytes();
  for (std::uint32_t layer = 0; layer < 2 * config_.n_layers; ++layer)
    std::memcpy(k_layer(layer) + block * bytes, from.data() + layer * bytes, bytes);
}

void CpuOps::begin(const graph::StepInputs& inputs) {
  inputs_ = inputs;
  const auto n = static_cast<std::uint32_t>(inputs.positions.size());
  for_each("rope", static_cast<std::uint32_t>(rope_tables_.size()) * n, [&](std::uint32_t item) {
    const std::uint32_t table = item / n, i = item % n;
    rope_tables_[table].rotation(inputs.positions[i],
                                 rotations_ + (std::size_t{table} * step_tokens_ + i) * config_.rope_dim());
  });
}

template <class Body>
void CpuOps::for_each(std::string_view kernel, std::uint32_t n, Body&& body) {
  if (times_ == nullptr) return pool_.for_each(n, body);
  const auto began = std::chrono::steady_clock::now();
  pool_.for_each(n, body);
  times_->add(kernel, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
}

// Heads of row i, in place.
void CpuOps::rotate(std::uint32_t table, std::uint32_t i, float* heads, std::uint32_t n_heads) const {
  const std::size_t row = std::size_t{table} * step_tokens_ + i;
  kernels_.rope(heads, n_heads, config_.head_dim, config_.rope_dim(), rotations_ + row * config_.rope_dim(),
                config_.rope_style);
}

// Rows in ranges, a few a thread.
template <class Body>
void CpuOps::for_rows(std::string_view kernel, std::uint32_t n, Body&& body) {
  const std::uint32_t step = ceil_div(n, std::min(n, pool_.size() * kClaimsPerThread));
  for_each(kernel, ceil_div(n, step), [&](std::uint32_t i) {
    body(Range{i * step, std::min(n, (i + 1) * step)});
  });
}

void CpuOps::embed(std::uint32_t n, graph::WeightRef, Buffer out) {
  const model::Weight& table = weights_.embedding();
  const kernels::SourceRows rows = table.source();
  for_each("embed", n, [&](std::uint32_t i) {
    kernels_.embed(table.type,
                   rows.after(table.type, static_cast<std::size_t>(inputs_.tokens[i]), table.cols),
                   table.cols, config_.stream_scale(), row(out, i));
  });
}

void CpuOps::rms_norm(std::uint32_t n, Buffer x, graph::WeightRef weight, Buffer out) {
  for_rows("rms_norm", n, [&](Range r) {
    kernels_.rms_norm(row(x, r.begin), weights_.vector(weight), r.end - r.begin, cols(x),
                      config_.stream_eps(), row(out, r.begin));
  });
}

std::size_t CpuOps::Prepared::slot_of(kernels::DType type) const noexcept {
  return static_cast<std::size_t>(
      std::find(types.begin(), types.begin() + static_cast<std::ptrdiff_t>(n), type) - types.begin());
}

CpuOps::Prepared CpuOps::forms(std::span<const graph::Projection> projections) const {
  Prepared prepared;
  for (const graph::Projection& p : projections) {
    const bool dense = weights_.matrix(p.weight).data != nullptr;
    const kernels::DType type = dense ? weights_.matrix(p.weight).type : weights_.experts()->type(p.weight);
    if (prepared.slot_of(type) < prepared.n) continue;
    if (prepared.n == kPreparedSlots) std::abort();  // more projections than slots: a change of the decoder
    prepared.types[prepared.n++] = type;
  }
  return prepared;
}

std::byte* CpuOps::prepared_row(std::size_t slot, kernels::DType type, std::uint32_t i,
                                std::uint32_t cols) const noexcept {
  return prepared_[slot] + i * kernels_.activation_bytes(type, cols);
}

template <class Before>
CpuOps::Prepared CpuOps::prepare(std::string_view kernel, std::uint32_t n, Buffer x,
                                 std::span<const graph::Projection> projections, Before&& before) {
  const Prepared prepared = forms(projections);
  for_rows(kernel, n, [&](Range r) {
    before(r);
    for (std::size_t slot = 0; slot < prepared.n; ++slot) {
      const kernels::DType type = prepared.types[slot];
      kernels_.prepare_activations(type, row(x, r.begin), r.end - r.begin, cols(x),
                                   prepared_row(slot, type, r.begin, cols(x)));
    }
  });
  return prepared;
}

void CpuOps::run_products(std::string_view kernel) {
  std::uint32_t rows = 0;
  for (const Product& p : products_) rows += p.w.rows;
  // One thread takes each matrix whole.
  const std::uint32_t wanted = pool_.size() == 1 ? rows : ceil_div(rows, pool_.size() * kClaimsPerThread);
  std::uint32_t claims = 0;
  for (Product& p : products_) {
    const std::uint32_t group = kernels_.row_group(p.w.type);
    p.step = ceil_div(std::min(wanted, p.w.rows), group) * group;
    claims += ceil_div(p.w.rows, p.step);
    p.claims_end = claims;
  }
  for_each(kernel, claims, [&](std::uint32_t i) {
    const auto it = std::ranges::upper_bound(products_, i, {}, &Product::claims_end);
    const Product& p = *it;
    const std::uint32_t first = it == products_.begin() ? 0 : std::prev(it)->claims_end;
    const Range r{(i - first) * p.step, std::min(p.w.rows, (i - first + 1) * p.step)};
    kernels_.matmul(p.w.type, p.w.data, p.w.rows, p.w.cols, p.x, p.n, p.y, p.ldy, r);
    if (p.residual == nullptr) return;
    for (std::size_t at = r.begin; at < std::size_t{p.n} * p.ldy; at += p.ldy)
      kernels_.add(p.residual + at, p.y + at, r.end - r.begin);
  });
}

void CpuOps::multiply(std::uint32_t n, const Prepared& prepared,
                      std::span<const graph::Projection> projections, float* residual) {
  products_.clear();
  for (const graph::Projection& p : projections) {
    const CpuMatrix& w = weights_.matrix(p.weight);
    products_.push_back({w, prepared_[prepared.slot_of(w.type)], n, data(p.out), cols(p.out), residual});
  }
  run_products("matmul");
}

void CpuOps::matmul(std::uint32_t n, Buffer x, std::span<const graph::Projection> projections) {
  multiply(n, prepare("prepare_activations", n, x, projections, [](Range) {}), projections);
}

void CpuOps::norm_matmul(std::uint32_t n, Buffer x, graph::WeightRef norm,
                         std::span<const graph::Projection> projections) {
  const Prepared prepared = prepare("rms_norm", n, Buffer::normed, projections, [&](Range r) {
    kernels_.rms_norm(row(x, r.begin), weights_.vector(norm), r.end - r.begin, cols(x), config_.stream_eps(),
                      row(Buffer::normed, r.begin));
  });
  multiply(n, prepared, projections);
}

void CpuOps::matmul_add(std::uint32_t n, Buffer x, graph::WeightRef weight, Buffer residual) {
  const graph::Projection projection[] = {{weight, Buffer::projected}};
  multiply(n, prepare("prepare_activations", n, x, projection, [](Range) {}), projection, data(residual));
}

void CpuOps::glu_matmul_add(std::uint32_t n, Buffer gate, Buffer up, graph::WeightRef down, Buffer residual) {
  const graph::Projection projection[] = {{down, Buffer::projected}};
  const Prepared prepared = prepare("glu", n, gate, projection, [&](Range r) { glu_rows(r, gate, up); });
  multiply(n, prepared, projection, data(residual));
}

void CpuOps::moe_route(std::uint32_t n, Buffer router) {
  const std::uint32_t used = config_.n_experts_used;
  for_rows("moe_route", n, [&](Range r) {
    for (std::uint32_t i = r.begin; i < r.end; ++i)
      kernels_.moe_route(row(router, i), config_.n_experts, used, routed_ + std::size_t{i} * used,
                         routed_weights_ + std::size_t{i} * used);
  });
  groups_.group({routed_, std::size_t{n} * used});
}

void CpuOps::add_expert_products(const Prepared& prepared, graph::WeightRef weight, float* y,
                                 std::uint32_t ldy) {
  for (const ExpertGroups::Group& g : groups_.groups()) {
    const CpuMatrix w = weights_.experts()->matrix(weight, g.expert);
    const std::byte* x = prepared_row(prepared.slot_of(w.type), w.type, g.begin, w.cols);
    products_.push_back({w, x, g.end - g.begin, y + std::size_t{g.begin} * ldy, ldy, nullptr});
  }
}

void CpuOps::moe_matmul(std::uint32_t n, Buffer x, std::span<const graph::Projection> projections) {
  const std::uint32_t used = config_.n_experts_used;
  weights_.experts()->require(projections.front().weight.layer, groups_.experts());
  const Prepared prepared = forms(projections);
  for_rows("prepare_activations", n * used, [&](Range r) {
    for (std::uint32_t place = r.begin; place < r.end; ++place)
      for (std::size_t slot = 0; slot < prepared.n; ++slot)
        kernels_.prepare_activations(prepared.types[slot], row(x, groups_.choice_at(place) / used), 1,
                                     cols(x), prepared_row(slot, prepared.types[slot], place, cols(x)));
  });
  products_.clear();
  for (const graph::Projection& p : projections)
    add_expert_products(prepared, p.weight, data(p.out), cols(p.out));
  run_products("moe_matmul");
}

void CpuOps::moe_glu_matmul_add(std::uint32_t n, Buffer gate, Buffer up, graph::WeightRef down,
                                Buffer residual) {
  const std::uint32_t used = config_.n_experts_used;
  const std::uint32_t dim = config_.dim;
  const graph::Projection projection[] = {{down, Buffer::projected}};
  const Prepared prepared =
      prepare("glu", n * used, gate, projection, [&](Range r) { glu_rows(r, gate, up); });
  products_.clear();
  add_expert_products(prepared, down, expert_out_, dim);
  run_products("moe_matmul");
  for_rows("moe_add", n, [&](Range r) {
    for (std::uint32_t choice = r.begin * used; choice < r.end * used; ++choice)
      kernels_.add_scaled(row(residual, choice / used),
                          expert_out_ + std::size_t{groups_.place_of(choice)} * dim, routed_weights_[choice],
                          dim);
  });
}

void CpuOps::bias(std::uint32_t n, Buffer x, graph::WeightRef b) {
  for_rows("bias", n, [&](Range r) {
    for (std::uint32_t i = r.begin; i < r.end; ++i) kernels_.add(row(x, i), weights_.vector(b), cols(x));
  });
}

void CpuOps::head_norm(std::uint32_t n, Buffer x, graph::WeightRef weight) {
  for_rows("head_norm", n, [&](Range r) {
    kernels_.rms_norm(row(x, r.begin), weights_.vector(weight),
                      (r.end - r.begin) * (cols(x) / config_.head_dim), config_.head_dim, config_.norm_eps,
                      row(x, r.begin));
  });
}

void CpuOps::store_kv(std::uint32_t layer, std::uint32_t i, std::uint32_t kv_head, const float* k,
                      const float* v) {
  const std::uint32_t position = inputs_.positions[i];
  const std::uint32_t block = inputs_.block_tables[inputs_.sequence_of[i]][position / block_size_];
  const std::size_t page = (std::size_t{block} * config_.n_kv_heads + kv_head) * layout_.page_bytes();
  store_row(k, position % block_size_, k_layer(layer) + page);
  store_row(v, position % block_size_, v_layer(layer) + page);
}

void CpuOps::store_row(const float* x, std::uint32_t at, std::byte* page) {
  const std::uint32_t dim = config_.head_dim;
  if (layout_.type == kernels::DType::q8_0) {
    auto* scales = reinterpret_cast<std::uint16_t*>(page + kernels::kv_scales_at(block_size_, dim, at));
    kernels_.store_q8_0(x, dim, reinterpret_cast<std::int8_t*>(page) + std::size_t{at} * dim, scales);
  } else {
    kernels_.store_f16(x, dim, reinterpret_cast<std::uint16_t*>(page) + std::size_t{at} * dim);
  }
}

void CpuOps::rope_kv_store(std::uint32_t n, std::uint32_t layer, Buffer q, Buffer k, Buffer v) {
  for_rows("rope_kv_store", n, [&](Range r) {
    for (std::uint32_t i = r.begin; i < r.end; ++i) {
      rotate(device::query_table_of(config_, layer), i, row(q, i), config_.n_heads);
      rotate(device::key_table_of(config_, layer), i, row(k, i), config_.n_kv_heads);
      for (std::uint32_t h = 0; h < config_.n_kv_heads; ++h)
        store_kv(layer, i, h, row(k, i) + std::size_t{h} * config_.head_dim,
                 row(v, i) + std::size_t{h} * config_.head_dim);
    }
  });
}

void CpuOps::attend_heads(std::uint32_t layer, std::uint32_t i, std::uint32_t kv_head, const float* q,
                          float* out) {
  const std::uint32_t group = config_.n_heads / config_.n_kv_heads;
  kernels::cpu::AttendArgs args;
  args.q = q;
  args.k_blocks = k_layer(layer);
  args.v_blocks = v_layer(layer);
  args.block_table = inputs_.block_tables[inputs_.sequence_of[i]].data();
  args.block_size = block_size_;
  args.n_positions = inputs_.positions[i] + 1;
  const std::uint32_t window = config_.layer(layer).window;
  args.first_position = window != 0 && args.n_positions > window ? args.n_positions - window : 0;
  args.n_heads = config_.n_heads;
  args.n_kv_heads = config_.n_kv_heads;
  args.head_dim = config_.head_dim;
  args.scale = config_.query_scale;
  args.cap = config_.attention_cap;
  args.out = out;
  args.kv_type = layout_.type;
  kernels_.attend(args, {kv_head * group, (kv_head + 1) * group});
}

void CpuOps::attend(std::uint32_t n, std::uint32_t layer, Buffer q, Buffer out) {
  const std::uint32_t heads = config_.n_kv_heads;
  // Last rows first: they see the most positions, and the short ones fill the gaps at the end.
  for_each("attend", n * heads, [&](std::uint32_t item) {
    const std::uint32_t i = n - 1 - item / heads;
    attend_heads(layer, i, item % heads, row(q, i), row(out, i));
  });
}

void CpuOps::attention(std::uint32_t n, std::uint32_t layer, Buffer q, Buffer k, Buffer v, Buffer out) {
  // A row reads what earlier rows of this step store, so storing is over before attending begins.
  if (!inputs_.one_row_each) return Ops::attention(n, layer, q, k, v, out);
  const std::uint32_t heads = config_.n_kv_heads;
  const std::uint32_t group = config_.n_heads / heads;
  for_each("attend", n * heads, [&](std::uint32_t item) {
    const std::uint32_t i = item / heads;
    const std::uint32_t h = item % heads;
    float* q_group = row(q, i) + std::size_t{h} * group * config_.head_dim;
    float* k_head = row(k, i) + std::size_t{h} * config_.head_dim;
    rotate(device::query_table_of(config_, layer), i, q_group, group);
    rotate(device::key_table_of(config_, layer), i, k_head, 1);
    store_kv(layer, i, h, k_head, row(v, i) + std::size_t{h} * config_.head_dim);
    attend_heads(layer, i, h, row(q, i), row(out, i));
  });
}

void CpuOps::glu_rows(Range r, Buffer gate, Buffer up) {
  kernels_.glu(config_.activation, row(gate, r.begin), row(up, r.begin),
               std::size_t{r.end - r.begin} * cols(gate), row(gate, r.begin));
}

void CpuOps::glu(std::uint32_t n, Buffer gate, Buffer up) {
  for_rows("glu", n, [&](Range r) { glu_rows(r, gate, up); });
}

void CpuOps::softcap(std::uint32_t n, Buffer x, float cap) {
  for_rows("softcap", n,
           [&](Range r) { kernels_.softcap(row(x, r.begin), std::size_t{r.end - r.begin} * cols(x), cap); });
}

void CpuOps::add(std::uint32_t n, Buffer x, Buffer y) {
  for_rows("add", n, [&](Range r) {
    kernels_.add(row(x, r.begin), row(y, r.begin), std::size_t{r.end - r.begin} * cols(x));
  });
}

void CpuOps::gather_wanted(Buffer x, Buffer out) {
  for (std::uint32_t i = 0; i < inputs_.wanted.size(); ++i)
    std::memcpy(row(out, i), row(x, inputs_.wanted[i]), sizeof(float) * cols(x));
}

}  // namespace flyball::cpu
