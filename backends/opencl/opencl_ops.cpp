#include "backends/opencl/opencl_ops.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "backends/opencl/matmul_plan.hpp"

namespace flyball::opencl {
namespace {

using graph::Buffer;

// Work-items of an elementwise group: a wave of every GPU, and a handful of vectors for a processor.
constexpr std::uint32_t kElementwiseLocal = 32;
constexpr std::uint32_t kHeadLanes = 32;     // work-items of one head
constexpr std::uint32_t kValuesPerItem = 8;  // as the kernels have it
constexpr std::size_t kMaxProjections = 4;
constexpr std::size_t kAskedWords = 5;  // of top_k: row, k, of, exp_sum, where in the output
constexpr std::uint32_t kNormLanes = 256, kTopKLanes = 256, kRouteLanes = 64;  // work-items that share a row

std::size_t round_up(std::size_t n, std::size_t to) {
  return (n + to - 1) / to * to;
}

std::string define(const char* name, std::uint64_t value) {
  return std::string(" -D ") + name + "=" + std::to_string(value);
}

Result<void> set(Kernel& kernel, Result<Kernel> made) {
  if (!made) return pass(made);
  kernel = std::move(*made);
  return {};
}

}  // namespace

Result<std::unique_ptr<OpenClOps>> OpenClOps::make(Device& device, Programs& programs,
                                                   const model::ModelConfig& config, const Weights& weights,
                                                   const graph::ModelPart& part, const OpsLimits& limits,
                                                   const TuningTable& tuning) {
  if (config.head_dim % 2 != 0)
    return fail(ErrorCode::unsupported_value,
                "The OpenCL engine needs heads of an even number of values; the model's have " +
                    std::to_string(config.head_dim) + ".",
                "backend");
  std::unique_ptr<OpenClOps> ops(new OpenClOps(device, config, weights, part, limits));
  if (auto ok = ops->allocate(); !ok) return pass(ok);
  if (auto ok = ops->build(programs, tuning); !ok) return pass(ok);
  return ops;
}

Result<void> OpenClOps::allocate() {
  plan_ = graph::plan_buffers(config_, limits_.step_tokens, part_.projects ? limits_.logit_rows : 0,
                              graph::kMaxCandidates);
  const auto allocate = [&](std::uint64_t bytes, Memory& to) -> Result<void> {
    auto buffer = device_.allocate(bytes, "activations");
    if (!buffer) return pass(buffer);
    to = std::move(*buffer);
    scratch_bytes_ += to.bytes;
    return {};
  };
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    if (auto ok = allocate(plan_[i].bytes(), buffers_[i]); !ok) return pass(ok);
  const std::uint64_t rows = limits_.step_tokens;
  if (config_.n_experts > 0) {
    const std::uint64_t uses = rows * config_.n_experts_used * sizeof(float);
    if (auto ok = allocate(uses, experts_.ids); !ok) return pass(ok);
    if (auto ok = allocate(uses, experts_.order); !ok) return pass(ok);
    if (auto ok = allocate((config_.n_experts + 1) * sizeof(std::uint32_t), experts_.offsets); !ok)
      return pass(ok);
    experts_.n_experts = config_.n_experts;
    if (auto ok = allocate(uses, expert_weights_); !ok) return pass(ok);
    if (auto ok = allocate(uses * config_.dim, expert_out_); !ok) return pass(ok);
  }
  for (const auto& [bytes, buffer] :
       {std::pair(rows * sizeof(Token), &tokens_.buffer),
        std::pair(rows * sizeof(std::uint32_t), &slots_.buffer),
        std::pair(rows * sizeof(std::uint32_t), &wanted_.buffer),
        std::pair(limits_.logit_rows * kAskedWords * sizeof(std::uint32_t), &asked_.buffer),
        std::pair(rows * sizeof(Work), &split_work_.buffer),
        std::pair(rows * sizeof(Work), &row_work_.buffer)})
    if (auto ok = allocate(bytes, *buffer); !ok) return pass(ok);
  for (std::uint32_t table = 0; table < device::rope_tables(config_); ++table)
    if (auto ok = allocate(rows * config_.rope_dim() * sizeof(float), rotations_[table].buffer); !ok)
      return pass(ok);
  return {};
}

std::uint32_t OpenClOps::lanes(std::uint32_t most) const {
  if (device_.facts().processor) return 1;
  std::uint32_t lanes = 1;
  while (2 * lanes <= std::min(most, device_.facts().max_work_group)) lanes *= 2;
  return lanes;
}

Result<void> OpenClOps::build(Programs& programs, const TuningTable& tuning) {
  programs_ = &programs;
  // First: it stores what it has compiled, and of the others nothing has run yet.
  auto matmul =
      Matmul::make(device_, programs, weights_, limits_.step_tokens, config_.n_experts_used, tuning);
  if (!matmul) return pass(matmul);
  matmul_ = std::move(*matmul);
  const auto make = [&](Kernel& kernel, const std::string& name, const std::string& options) {
    const std::string_view files[] = {name};
    return set(kernel, programs.kernel(name, files, options));
  };
  const auto make_shared = [&](Kernel& kernel, const std::string& name, std::uint32_t& items,
                               std::uint32_t most) {
    items = lanes(most);
    return with_fewer_items(items, [&](std::uint32_t n) { return make(kernel, name, define("WG", n)); });
  };
  if (part_.embeds) {
    const std::string_view files[] = {"format_table", "weights", "embed"};
    const DeviceTable& table = weights_.embedding();
    const std::string scales = " -D SCALES_" + std::string(to_string(table.scale_type)) + "=1";
    if (auto ok = set(embed_, programs.kernel("embed", files, format_options(table.type) + scales)); !ok)
      return pass(ok);
  }
  if (auto ok = make_shared(rms_norm_, "rms_norm", norm_lanes_, kNormLanes); !ok) return pass(ok);
  const bool gelu = config_.activation == kernels::Activation::gelu;
  if (auto ok = make(glu_, "glu", define("GELU", gelu ? 1 : 0)); !ok) return pass(ok);
  if (auto ok = make(add_, "add", ""); !ok) return pass(ok);
  if (part_.projects) {
    if (auto ok = make(gather_, "gather", ""); !ok) return pass(ok);
    if (config_.logit_cap != 0.0F)
      if (auto ok = make(softcap_, "softcap", ""); !ok) return pass(ok);
    if (auto ok = make_shared(top_k_, "top_k", top_k_lanes_, kTopKLanes); !ok) return pass(ok);
  }
  if (config_.qkv_bias || config_.o_bias)
    if (auto ok = make(bias_, "bias", ""); !ok) return pass(ok);
  if (config_.qk_norm)
    if (auto ok = make(head_norm_, "head_norm", ""); !ok) return pass(ok);
  if (config_.n_experts > 0) {
    if (auto ok = make_shared(moe_route_, "moe_route", route_lanes_, kRouteLanes); !ok) return pass(ok);
    if (auto ok = make(moe_add_, "moe_add", ""); !ok) return pass(ok);
  }
  return {};
}

Result<void> OpenClOps::reserve_kv(const graph::KvLayout& layout, std::uint32_t n_blocks) {
  n_blocks_ = n_blocks;
  block_size_ = layout.block_size;
  kv_q8_0_ = layout.type == kernels::DType::q8_0;
  const std::uint64_t layer_bytes = layout.page_bytes() * layout.n_kv_heads * n_blocks;
  for (auto* side : {&keys_, &values_}) {
    side->resize(layout.n_layers);
    for (std::uint32_t layer = part_.begin; layer < part_.end; ++layer) {
      auto buffer = device_.allocate(layer_bytes, "the KV cache");
      if (!buffer) return pass(buffer);
      kv_bytes_ += buffer->bytes;
      (*side)[layer] = std::move(*buffer);
    }
  }
  // Should a sequence be longer, its rows go to the kernel that takes the splits in order.
  const std::uint64_t positions =
      std::min<std::uint64_t>(std::uint64_t{n_blocks} * block_size_, limits_.positions);
  split_ = attend_split(device_.facts().processor, positions);
  max_splits_ = static_cast<std::uint32_t>((positions + split_ - 1) / split_);
  const std::uint64_t partial =
      std::uint64_t{4} * limits_.logit_rows * max_splits_ * config_.n_heads * (config_.head_dim + 2);
  for (const auto& [bytes, buffer] :
       {std::pair(partial, &partial_), std::pair(std::uint64_t{4} * n_blocks, &tables_.buffer)}) {
    auto made = device_.allocate(bytes, "attention");
    if (!made) return pass(made);
    scratch_bytes_ += made->bytes;
    *buffer = std::move(*made);
  }
  return build_attend(*programs_);
}

Result<void> OpenClOps::build_attend(Programs& programs) {
  const auto make = [&](Kernel& kernel, const std::string& name, std::string_view file,
                        const std::string& options) {
    return set(kernel, programs.kernel(name, {&file, 1}, options));
  };
  const std::string stored = define("KV_Q8_0", kv_q8_0_ ? 1 : 0);
  const std::string interleaved =
      define("INTERLEAVED", config_.rope_style == kernels::RopeStyle::interleaved ? 1 : 0);
  if (auto ok = make(rope_kv_store_, "rope_kv_store", "rope_kv_store", stored + interleaved); !ok)
    return pass(ok);
  const std::uint32_t group = config_.n_heads / config_.n_kv_heads;
  std::string seen = config_.windowed() ? define("WINDOWED", 1) : "";
  if (config_.attention_cap != 0.0F) seen += " -D CAP=" + std::to_string(config_.attention_cap) + "f";
  attend_ = plan_attend(matmul_device(device_.facts()), config_.head_dim, group, block_size_);
  for (;;) {
    const std::string shape = define("HEAD_DIM", config_.head_dim) + define("GROUP", group) +
                              define("TILE", block_size_) + define("STAGE", attend_.stage) +
                              define("SPLIT", split_) + define("WG", attend_.lanes) + stored + seen;
    const std::string apart = shape + define("TQ", 1) + define("SPLITS_APART", 1);
    auto ok = make(attend_split_, "attend", "attend", apart);
    if (ok) ok = make(attend_combine_, "attend_combine", "attend", apart);
    const bool decodes = ok.has_value();
    if (decodes)
      ok = make(attend_rows_, "attend", "attend",
                shape + define("TQ", attend_.rows) + define("SPLITS_APART", 0));
    if (ok || ok.error().code != ErrorCode::model_unsupported) return ok;
    const auto next = smaller(attend_, decodes);
    if (!next) return ok;
    attend_ = *next;
  }
}

void OpenClOps::copy_block(std::uint32_t from, std::uint32_t to) {
  for (auto* side : {&keys_, &values_})
    for (const Memory& layer : std::span(*side).subspan(part_.begin, part_.n_layers())) {
      const std::uint64_t block = layer.bytes / n_blocks_;
      if (!failure_) keep(device_.copy(layer, from * block, layer, to * block, block));
    }
}

void OpenClOps::copy_block_out(std::uint32_t block, const Memory& to, std::uint64_t at) {
  const std::uint64_t bytes = layer_block_bytes();
  for (auto* side : {&keys_, &values_})
    for (const Memory& layer : std::span(*side).subspan(part_.begin, part_.n_layers())) {
      if (!failure_) keep(device_.copy(layer, block * bytes, to, at, bytes));
      at += bytes;
    }
}

void OpenClOps::copy_block_in(std::uint32_t block, const Memory& from, std::uint64_t at) {
  const std::uint64_t bytes = layer_block_bytes();
  for (auto* side : {&keys_, &values_})
    for (const Memory& layer : std::span(*side).subspan(part_.begin, part_.n_layers())) {
      if (!failure_) keep(device_.copy(from, at, layer, block * bytes, bytes));
      at += bytes;
    }
}

Result<void> OpenClOps::take_failure() {
  if (!failure_) return {};
  Error error = std::move(*failure_);
  failure_.reset();
  return std::unexpected(std::move(error));
}

void OpenClOps::keep(Result<void> done) {
  if (!done && !failure_) failure_ = std::move(done.error());
}

template <class... Args>
void OpenClOps::run(const Kernel& kernel, const Grid& grid, const Args&... args) {
  if (!failure_) keep(device_.run(kernel, grid, args...));
}

template <class T>
void OpenClOps::send(Input<T>& input) {
  if (failure_ || input.host.empty()) return;
  const auto bytes = std::as_bytes(std::span(input.host));
  if (bytes.size() >
      input.buffer.bytes) {  // sequences that share blocks have longer tables than there are blocks
    input.buffer = {};
    auto larger = device_.allocate(2 * bytes.size(), "block tables");
    if (!larger) {
      failure_ = std::move(larger.error());
      return;
    }
    input.buffer = std::move(*larger);
  }
  if (auto ok = device_.write_later(input.buffer, 0, bytes); !ok) failure_ = std::move(ok.error());
}

Grid OpenClOps::elementwise(std::uint32_t width, std::uint32_t rows) {
  Grid grid;
  grid.local = {kElementwiseLocal, 1, 1};
  grid.global = {round_up((width + kValuesPerItem - 1) / kValuesPerItem, kElementwiseLocal), rows, 1};
  return grid;
}

void OpenClOps::begin(const graph::StepInputs& inputs) {
  tokens_.host.assign(inputs.tokens.begin(), inputs.tokens.end());
  wanted_.host.assign(inputs.wanted.begin(), inputs.wanted.end());
  const std::size_t n = inputs.tokens.size();
  slots_.host.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t position = inputs.positions[i];
    slots_.host[i] = inputs.block_tables[inputs.sequence_of[i]][position / block_size_] * block_size_ +
                     position % block_size_;
  }
  for (std::size_t table = 0; table < rope_tables_.size(); ++table) {
    std::vector<float>& to = rotations_[table].host;
    to.resize(n * config_.rope_dim());
    for (std::size_t i = 0; i < n; ++i)
      rope_tables_[table].rotation(inputs.positions[i], to.data() + i * config_.rope_dim());
  }
  asked_.host.clear();
  std::uint32_t at = 0;
  for (const graph::TopK& t : inputs.top_k) {
    asked_.host.insert(asked_.host.end(), {t.row, t.k, t.of, t.exp_sum ? 1U : 0U, at});
    at += 1 + t.k;
  }
  lay_out_attention(inputs);
  send(asked_);
  send(tokens_);
  send(wanted_);
  send(slots_);
  for (Input<float>& rotations : rotations_) send(rotations);
  send(tables_);
  send(split_work_);
  send(row_work_);
}

// Each row attends for itself in either kernel and with the same result, so what runs where is a matter of
// speed: sequences with one row spread over splits, others share what they read in tiles of rows.
void OpenClOps::lay_out_attention(const graph::StepInputs& inputs) {
  tables_.host.clear();
  split_work_.host.clear();
  row_work_.host.clear();
  step_splits_ = 0;
  const auto n = static_cast<std::uint32_t>(inputs.tokens.size());
  for (std::uint32_t row = 0; row < n;) {
    const std::uint32_t sequence = inputs.sequence_of[row];
    std::uint32_t end = row;
    while (end < n && inputs.sequence_of[end] == sequence) ++end;
    const auto table_at = static_cast<std::uint32_t>(tables_.host.size());
    const std::uint32_t last = inputs.positions[end - 1];
    const auto table = inputs.block_tables[sequence].first(last / block_size_ + 1);
    tables_.host.insert(tables_.host.end(), table.begin(), table.end());
    const std::uint32_t splits = last / split_ + 1;
    if (end - row == 1 && split_work_.host.size() < limits_.logit_rows && splits <= max_splits_) {
      split_work_.host.push_back({row, 1, last, table_at});
      step_splits_ = std::max(step_splits_, splits);
      row = end;
    }
    for (; row < end; row += attend_.rows)
      row_work_.host.push_back({row, std::min(attend_.rows, end - row), inputs.positions[row], table_at});
    row = end;
  }
  // The longest first: the short ones fill the gaps at the end.
  std::ranges::stable_sort(row_work_.host, std::greater{}, &Work::first_position);
}

void OpenClOps::embed(std::uint32_t n, graph::WeightRef, Buffer out) {
  const DeviceTable& table = weights_.embedding();
  Grid grid;
  grid.local = {kElementwiseLocal, 1, 1};
  grid.global = {round_up(std::min(table.cols, 256U), kElementwiseLocal), n, 1};
  run(embed_, grid, table.buffer, cl_ulong{table.at}, cl_ulong{kernels::row_bytes(table.type, table.cols)},
      cl_ulong{table.scales_at}, cl_ulong{table.biases_at}, cl_ulong{table.scale_row_bytes}, tokens_.buffer,
      buffer(out), table.cols, config_.stream_scale());
}

void OpenClOps::rms_norm(std::uint32_t n, Buffer x, graph::WeightRef weight, Buffer out) {
  Grid grid;
  grid.local = {norm_lanes_, 1, 1};
  grid.global = {norm_lanes_, n, 1};
  run(rms_norm_, grid, buffer(x), weights_.vectors(), weights_.vector_at(weight), buffer(out), cols(x),
      config_.stream_eps());
}

void OpenClOps::matmul(std::uint32_t n, Buffer x, std::span<const graph::Projection> projections) {
  if (failure_) return;
  std::array<Matmul::Product, kMaxProjections> products{};
  if (projections.size() > products.size()) std::abort();  // a change of the decoder
  for (std::size_t i = 0; i < projections.size(); ++i)
    products[i] = {&weights_.matrix(projections[i].weight), &buffer(projections[i].out)};
  keep(matmul_->run(n, buffer(x), std::span(products).first(projections.size()), false));
}

void OpenClOps::matmul_add(std::uint32_t n, Buffer x, graph::WeightRef weight, Buffer residual) {
  if (failure_) return;
  const Matmul::Product product{&weights_.matrix(weight), &buffer(residual)};
  keep(matmul_->run(n, buffer(x), {&product, 1}, true));
}

void OpenClOps::bias(std::uint32_t n, Buffer x, graph::WeightRef b) {
  run(bias_, elementwise(cols(x), n), buffer(x), weights_.vectors(), weights_.vector_at(b), cols(x));
}

void OpenClOps::head_norm(std::uint32_t n, Buffer x, graph::WeightRef weight) {
  Grid grid;
  grid.global = {cols(x) / config_.head_dim, n, 1};
  run(head_norm_, grid, buffer(x), weights_.vectors(), weights_.vector_at(weight), config_.head_dim,
      config_.norm_eps);
}

void OpenClOps::rope_kv_store(std::uint32_t n, std::uint32_t layer, Buffer q, Buffer k, Buffer v) {
  Grid grid;
  grid.local[0] = grid.global[0] = lanes(kHeadLanes);
  grid.global[1] = config_.n_heads + 2 * config_.n_kv_heads;
  grid.global[2] = n;
  const Memory& q_rotations = rotations_[device::query_table_of(config_, layer)].buffer;
  const Memory& rotations = rotations_[device::key_table_of(config_, layer)].buffer;
  run(rope_kv_store_, grid, buffer(q), buffer(k), buffer(v), q_rotations, rotations, slots_.buffer,
      keys_[layer], values_[layer], config_.n_heads, config_.n_kv_heads, config_.head_dim, config_.rope_dim(),
      block_size_);
}

void OpenClOps::attend(std::uint32_t, std::uint32_t layer, Buffer q, Buffer out) {
  const float scale = config_.query_scale;
  const std::uint32_t layer_window = config_.layer(layer).window;
  const std::uint32_t window = layer_window != 0 ? layer_window : UINT32_MAX;
  Grid grid;
  grid.local[0] = grid.global[0] = attend_.lanes;
  grid.global[1] = config_.n_kv_heads;
  if (!row_work_.host.empty()) {
    grid.global[2] = row_work_.host.size();
    run(attend_rows_, grid, buffer(q), keys_[layer], values_[layer], row_work_.buffer, tables_.buffer,
        buffer(out), partial_, config_.n_kv_heads, scale, max_splits_, window);
  }
  if (split_work_.host.empty()) return;
  grid.global[0] = std::size_t{attend_.lanes} * step_splits_;
  grid.global[2] = split_work_.host.size();
  run(attend_split_, grid, buffer(q), keys_[layer], values_[layer], split_work_.buffer, tables_.buffer,
      buffer(out), partial_, config_.n_kv_heads, scale, max_splits_, window);
  if (step_splits_ == 1) return;
  Grid combine;
  combine.global = {config_.n_heads, split_work_.host.size(), 1};
  run(attend_combine_, combine, split_work_.buffer, partial_, buffer(out), config_.n_heads, max_splits_,
      window);
}

void OpenClOps::glu(std::uint32_t n, Buffer gate, Buffer up) {
  run(glu_, elementwise(cols(gate), n), buffer(gate), buffer(up), cols(gate));
}

void OpenClOps::softcap(std::uint32_t n, Buffer x, float cap) {
  run(softcap_, elementwise(cols(x), n), buffer(x), cap, cols(x));
}

void OpenClOps::add(std::uint32_t n, Buffer x, Buffer y) {
  run(add_, elementwise(cols(x), n), buffer(x), buffer(y), cols(x));
}

void OpenClOps::moe_route(std::uint32_t n, Buffer router) {
  Grid grid;
  grid.local = {route_lanes_, 1, 1};
  grid.global = {route_lanes_, n, 1};
  run(moe_route_, grid, buffer(router), experts_.ids, expert_weights_, config_.n_experts,
      config_.n_experts_used);
  if (!failure_) keep(matmul_->group(n * config_.n_experts_used, experts_));
}

void OpenClOps::moe_matmul(std::uint32_t n, Buffer x, std::span<const graph::Projection> projections) {
  const std::uint32_t used = config_.n_experts_used;
  for (const graph::Projection& p : projections)
    if (!failure_)
      keep(matmul_->run_experts(n * used, buffer(x), used, weights_.matrix(p.weight), experts_,
                                buffer(p.out)));
}

void OpenClOps::moe_glu_matmul_add(std::uint32_t n, Buffer gate, Buffer up, graph::WeightRef down,
                                   Buffer residual) {
  const std::uint32_t used = config_.n_experts_used;
  glu(n * used, gate, up);
  if (!failure_)
    keep(matmul_->run_experts(n * used, buffer(gate), 1, weights_.matrix(down), experts_, expert_out_));
  run(moe_add_, elementwise(config_.dim, n), expert_out_, expert_weights_, buffer(residual), used,
      config_.dim);
}

void OpenClOps::gather_wanted(Buffer x, Buffer out) {
  run(gather_, elementwise(cols(x), static_cast<std::uint32_t>(wanted_.host.size())), buffer(x),
      wanted_.buffer, buffer(out), cols(x));
}

void OpenClOps::top_k(Buffer logits, Buffer out) {
  Grid grid;
  grid.local[0] = grid.global[0] = top_k_lanes_;
  grid.global[1] = asked_.host.size() / kAskedWords;
  run(top_k_, grid, buffer(logits), asked_.buffer, buffer(out), cols(logits));
}

}  // namespace flyball::opencl
