#include "backends/vulkan/vulkan_ops.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <set>
#include <utility>

#include "backends/device/memory.hpp"

namespace flyball::vulkan {
namespace {

using graph::Buffer;

constexpr std::uint32_t kMostGroups = 65535;  // of a grid's dimension, on every device
// Software devices have kernels of their own for norms and gates, texel_rms_norm and texel_glu: they take
// eight values at a time.
constexpr std::uint32_t kEight = 8;

}  // namespace

Result<std::unique_ptr<VulkanOps>> VulkanOps::make(Device& device, const model::ModelConfig& config,
                                                   const Weights& weights, const OpsLimits& limits) {
  if (config.head_dim % 2 != 0)
    return fail(ErrorCode::unsupported_value,
                "The Vulkan engine needs heads of an even number of values; the model's have " +
                    std::to_string(config.head_dim) + ".",
                "backend");
  if (config.n_experts > 0 && !experts_can_do(device.facts(), limits.step_tokens, config.n_experts_used,
                                              config.n_experts, std::max(config.dim, config.expert_ffn_dim)))
    return fail(ErrorCode::unsupported_value,
                device.facts().name + ", whose driver ends long loops, cannot do steps of " +
                    std::to_string(limits.step_tokens) + " tokens with this model's " +
                    std::to_string(config.n_experts) + " experts.",
                "backend");
  std::unique_ptr<VulkanOps> ops(new VulkanOps(device, config, weights, limits));
  if (auto ok = ops->allocate(); !ok) return pass(ok);
  if (auto ok = ops->build(); !ok) return pass(ok);
  return ops;
}

Result<Memory> VulkanOps::scratch(std::uint64_t bytes, std::string_view what, Place place) {
  auto memory = device_.allocate(bytes, what, place);
  if (memory) scratch_bytes_ += memory->bytes();
  return memory;
}

Result<void> VulkanOps::allocate() {
  plan_ = graph::plan_buffers(config_, limits_.step_tokens, limits_.logit_rows, graph::kMaxCandidates);
  const auto make = [&](Memory& to, std::uint64_t bytes, Place place) -> Result<void> {
    auto memory = scratch(bytes, "activations", place);
    if (!memory) return pass(memory);
    to = std::move(*memory);
    return {};
  };
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const Place place = i == static_cast<std::size_t>(Buffer::candidates) ? Place::readback : Place::device;
    if (auto ok = make(buffers_[i], plan_[i].bytes(), place); !ok) return pass(ok);
  }
  const Memory& logits = buffer(Buffer::logits);
  if (!device_.facts().unified || logits.host() == nullptr)
    if (auto ok = make(readback_, logits.bytes(), Place::readback); !ok) return pass(ok);

  const std::uint64_t rows = limits_.step_tokens;
  if (config_.n_experts > 0) {
    const std::uint64_t uses = rows * config_.n_experts_used * sizeof(float);
    for (const auto& [to, bytes] :
         {std::pair(&expert_ids_, uses), std::pair(&expert_weights_, uses), std::pair(&expert_order_, uses),
          std::pair(&expert_offsets_, (config_.n_experts + 1) * sizeof(std::uint32_t)),
          std::pair(&expert_out_, uses * config_.dim)})
      if (auto ok = make(*to, bytes, Place::device); !ok) return pass(ok);
  }

  if (const std::uint64_t bytes = most_prepared_bytes(); bytes > 0)
    if (auto ok = make(prepared_, bytes, Place::device); !ok) return pass(ok);

  return step_.allocate();
}

std::uint64_t VulkanOps::most_prepared_bytes() const {
  std::uint64_t most = 0;
  for (const DeviceWeight& w : weights_.all()) {
    std::uint64_t rows = std::max(limits_.step_tokens, limits_.logit_rows);
    if (w.experts > 1 && w.cols == config_.expert_ffn_dim) rows *= config_.n_experts_used;
    most = std::max(most, prepared_bytes(device_.facts(), w.format.type, rows, w.cols));
  }
  return most;
}

// Builds all that was asked for, at once.
Result<void> VulkanOps::build_all(std::span<const Wanted> wanted) {
  std::vector<KernelSpec> specs;
  for (const Wanted& w : wanted) specs.push_back(w.spec);
  if (auto ok = device_.build(specs); !ok) return pass(ok);
  for (const Wanted& w : wanted) {
    auto made = device_.pipeline(w.spec.name, w.spec.constants, w.spec.push_bytes);
    if (!made) return pass(made);
    *w.kernel = *made;
  }
  return {};
}

Result<void> VulkanOps::build() {
  std::vector<Wanted> wanted;
  const auto make = [&](Pipeline& kernel, std::string_view role, const std::string& name, std::uint32_t push,
                        std::initializer_list<std::uint32_t> more = {}) {
    wanted.push_back({&kernel, {name, {group_size(device_.facts(), role)}, push}});
    auto& constants = wanted.back().spec.constants;
    constants.insert(constants.end(), more);
  };
  const auto plain = [&](Pipeline& kernel, const char* name, std::uint32_t push) {
    make(kernel, name, name, push);
  };
  const WeightFormat table = weights_[{graph::WeightRole::token_embedding}].format;
  make(embed_, "embed", per_format("embed", table.type), sizeof(EmbedPush), {table.place()});
  auto eights = in_eights();
  if (!eights) return pass(eights);
  eights_ = *eights;
  const char* glu = eights_ ? "texel_glu" : "glu";
  plain(rms_norm_, eights_ ? "texel_rms_norm" : "rms_norm", sizeof(RmsNormPush));
  make(glu_, glu, glu, sizeof(ElementwisePush), {config_.activation == kernels::Activation::gelu ? 1U : 0U});
  if (config_.logit_cap != 0.0F) plain(softcap_, "softcap", sizeof(SoftcapPush));
  plain(add_, "add", sizeof(ElementwisePush));
  if (prepared_) plain(prepare_activations_, "prepare_activations", sizeof(PrepareActivationsPush));
  plain(gather_, "gather", sizeof(GatherPush));
  plain(top_k_, "top_k", sizeof(TopKPush));
  if (config_.qkv_bias || config_.o_bias) plain(bias_, "bias", sizeof(BiasPush));
  if (config_.qk_norm) plain(head_norm_, "head_norm", sizeof(HeadNormPush));
  if (config_.n_experts > 0) {
    plain(moe_route_, "moe_route", sizeof(MoeRoutePush));
    plain(moe_group_, "moe_group", sizeof(MoeGroupPush));
    plain(moe_add_, "moe_add", sizeof(MoeAddPush));
  }
  return build_all(wanted);
}

Result<bool> VulkanOps::in_eights() {
  const DeviceFacts& facts = device_.facts();
  if (facts.texel_bytes == 0) return false;
  const std::uint64_t most = std::min(facts.texel_bytes, facts.storage_bytes);
  for (const Buffer b : {Buffer::residual, Buffer::normed, Buffer::projected, Buffer::gate, Buffer::up,
                         Buffer::wanted_residual})
    if (cols(b) % kEight != 0 || buffer(b).bytes() > most) return false;
  for (const DeviceWeight& w : weights_.all()) {
    if (w.rows != 1 || w.experts != 1) continue;
    auto texels = device_.texels(w.address);
    if (!texels) return pass(texels);
    const std::uint64_t at = w.address - texels->begin;
    if (at % (kEight * sizeof(float)) != 0 || at + w.cols * sizeof(float) > facts.texel_bytes) return false;
  }
  return true;
}

Result<void> VulkanOps::build_attention() {
  const std::uint32_t group = config_.n_heads / config_.n_kv_heads, q8_0 = kv_q8_0_ ? 1 : 0;
  std::vector<Wanted> wanted;
  for (const auto& [kernel, name] :
       {std::pair(&attend_rows_, "attend_rows"), std::pair(&attend_split_, "attend_split"),
        std::pair(&attend_combine_, "attend_combine")})
    wanted.push_back(
        {kernel,
         {name,
          {group_size(device_.facts(), name), config_.head_dim, group, block_size_, q8_0, attend_plan_.split,
           attend_plan_.item_rows, config_.windowed() ? 1U : 0U,
           std::bit_cast<std::uint32_t>(config_.attention_cap),
           attend_plan_.unrolled && kernel == &attend_rows_ ? 1U : 0U, device_.facts().processor ? 1U : 0U},
          sizeof(AttendPush)}});
  const std::uint32_t interleaved = config_.rope_style == kernels::RopeStyle::interleaved ? 1 : 0;
  wanted.push_back({&rope_kv_store_,
                    {"rope_kv_store",
                     {group_size(device_.facts(), "rope_kv_store"), interleaved, q8_0},
                     sizeof(RopeKvStorePush)}});
  return build_all(wanted);
}

Result<void> VulkanOps::reserve_kv(const graph::KvLayout& layout, std::uint32_t n_blocks) {
  n_blocks_ = n_blocks;
  block_size_ = layout.block_size;
  kv_q8_0_ = layout.type == kernels::DType::q8_0;
  // Should a sequence be longer, its rows go to the kernel that takes the splits in order; beyond what the
  // plan is for, the step is an error.
  const std::uint64_t positions =
      std::min<std::uint64_t>(std::uint64_t{n_blocks} * block_size_, limits_.positions);
  attend_plan_ = plan_attend(device_.facts(), config_.head_dim, config_.n_heads / config_.n_kv_heads,
                             block_size_, positions);
  if (positions > attend_plan_.most_positions)
    return fail(ErrorCode::unsupported_value,
                "Sequences of up to " + std::to_string(positions) + " tokens are too long for " +
                    device_.facts().name + ", which attends to " +
                    std::to_string(attend_plan_.most_positions) + " at most. Give a smaller context.",
                "context");
  const std::uint64_t layer_bytes = layout.page_bytes() * layout.n_kv_heads * n_blocks;
  for (std::uint32_t i = 0; i < 2 * layout.n_layers; ++i) {
    auto memory = device_.allocate(layer_bytes, "the KV cache", Place::device);
    if (!memory) return pass(memory);
    kv_bytes_ += layer_bytes;
    kv_mapped_ = kv_mapped_ && memory->host() != nullptr;
    // Now, or the machine would promise it to the next one, too. Of activations a step takes what it touches.
    if (device_.facts().unified && memory->host() != nullptr)
      device::commit_pages({memory->host(), layer_bytes});
    (i < layout.n_layers ? keys_ : values_).push_back(std::move(*memory));
  }
  max_splits_ = divided_up(positions, attend_plan_.split);
  const std::uint64_t partial = sizeof(float) * limits_.logit_rows * std::uint64_t{max_splits_} *
                                config_.n_heads * (config_.head_dim + 2);
  auto memory = scratch(partial, "attention", Place::device);
  if (!memory) return pass(memory);
  partial_ = std::move(*memory);
  if (auto ok = step_.reserve_tables({attend_plan_, block_size_, max_splits_}, n_blocks); !ok) return ok;
  return build_attention();
}

Result<std::vector<std::uint32_t>> VulkanOps::build_products() {
  std::set<std::string> known;
  std::vector<KernelSpec> specs;
  std::vector<std::uint32_t> counts;
  std::optional<Error> failure;
  const auto texel_plan = [&](const DeviceWeight& w, std::uint32_t n) -> std::optional<MatmulPlan> {
    if (!by_texel(device_.facts(), w.format.type)) return std::nullopt;
    const auto texels = device_.texels(w.address);
    if (!texels) failure = texels.error();
    if (!texels) return std::nullopt;
    const std::uint64_t at = w.address - texels->begin;
    auto panel = plan_texel_panel(device_.facts(), w.format.type, w.rows, w.cols, n, at, 0);
    if (panel) return panel;
    return plan_texel_matmul(device_.facts(), w.format.type, {&w.rows, 1}, w.cols, n, {&at, 1});
  };
  for (std::uint32_t n = 1; n <= limits_.step_tokens; ++n) {
    const std::size_t before = known.size();
    const auto meet = [&](MatmulPlan plan, std::uint32_t push) {
      std::string key = plan.kernel;
      for (const std::uint32_t c : plan.constants) key += " " + std::to_string(c);
      if (known.insert(std::move(key)).second)
        specs.push_back({std::move(plan.kernel), std::move(plan.constants), push});
    };
    for (const DeviceWeight& w : weights_.all()) {
      if (w.rows == 1 && w.experts == 1) continue;  // a norm or a bias
      if (w.experts > 1)
        meet(plan_expert_matmul(device_.facts(), w.format, w.rows, w.cols, n * config_.n_experts_used,
                                w.experts)
                 .matmul,
             sizeof(MoeMatmulPush));
      else
        meet(texel_plan(w, n).value_or(plan_matmul(device_.facts(), w.format, {&w.rows, 1}, w.cols, n)),
             sizeof(MatmulPush));
      if (failure) return std::unexpected(std::move(*failure));
    }
    if (known.size() != before) counts.push_back(n);
  }
  if (auto ok = device_.build(specs); !ok) return pass(ok);
  return counts;
}

void VulkanOps::record_into(Commands* commands) {
  commands_ = commands;
  fresh_ = true;
}

void VulkanOps::keep(Error error) {
  if (!failure_) failure_ = std::move(error);
}

Result<void> VulkanOps::take_failure() {
  if (!failure_) return {};
  Error error = std::move(*failure_);
  failure_.reset();
  return std::unexpected(std::move(error));
}

void VulkanOps::after_all() {
  if (!std::exchange(fresh_, false)) commands_->barrier();
}

void VulkanOps::copy_block(std::uint32_t from, std::uint32_t to) {
  after_all();  // a block may be copied that has just been copied to
  for (auto* side : {&keys_, &values_})
    for (const Memory& layer : *side) {
      const std::uint64_t block = kv_bytes_ / (2 * keys_.size()) / n_blocks_;
      commands_->copy(layer, from * block, layer, to * block, block);
    }
}

void VulkanOps::read_block(std::uint32_t block, std::span<std::byte> to) const {
  const std::uint64_t bytes = layer_block_bytes();
  std::byte* at = to.data();
  for (const auto* side : {&keys_, &values_})
    for (const Memory& layer : *side) {
      std::memcpy(at, layer.host() + block * bytes, bytes);
      at += bytes;
    }
}

void VulkanOps::write_block(std::uint32_t block, std::span<const std::byte> from) {
  const std::uint64_t bytes = layer_block_bytes();
  const std::byte* at = from.data();
  for (const auto* side : {&keys_, &values_})
    for (const Memory& layer : *side) {
      std::memcpy(layer.host() + block * bytes, at, bytes);
      at += bytes;
    }
}

void VulkanOps::copy_block_out(Commands& commands, std::uint32_t block, const Memory& to,
                               std::uint64_t at) const {
  const std::uint64_t bytes = layer_block_bytes();
  for (const auto* side : {&keys_, &values_})
    for (const Memory& layer : *side) {
      commands.copy(layer, block * bytes, to, at, bytes);
      at += bytes;
    }
}

void VulkanOps::copy_block_in(Commands& commands, std::uint32_t block, const Memory& from, std::uint64_t at) {
  const std::uint64_t bytes = layer_block_bytes();
  for (const auto* side : {&keys_, &values_})
    for (const Memory& layer : *side) {
      commands.copy(from, at, layer, block * bytes, bytes);
      at += bytes;
    }
}

void VulkanOps::read_back(std::uint32_t rows) {
  if (!readback_) return;
  after_all();
  commands_->copy(buffer(Buffer::logits), 0, readback_, 0,
                  std::uint64_t{rows} * cols(Buffer::logits) * sizeof(float));
}

const float* VulkanOps::host_logits() const noexcept {
  return reinterpret_cast<const float*>(readback_ ? readback_.host() : buffer(Buffer::logits).host());
}

template <class Push>
void VulkanOps::dispatch_eights(const Pipeline& kernel, Push& push, std::initializer_list<Address*> places,
                                const Groups& groups) {
  std::array<Texels, 3> sets;
  std::size_t count = 0;
  for (Address* place : places) {
    auto texels = device_.texels(*place);
    if (!texels) return keep(std::move(texels.error()));
    *place -= texels->begin;
    sets[count++] = *texels;
  }
  commands_->dispatch(kernel, push, groups, std::span(sets).first(count));
}

void VulkanOps::elementwise(const Pipeline& kernel, std::string_view name, std::uint64_t count, Buffer x,
                            Buffer y) {
  after_all();
  commands_->dispatch(kernel, ElementwisePush{at(x), at(y), static_cast<std::uint32_t>(count), 0},
                      by_stride(name, count));
}

Groups VulkanOps::by_stride(std::string_view kernel, std::uint64_t count) const {
  const std::uint32_t groups = divided_up(count, std::uint64_t{4} * group_size(device_.facts(), kernel));
  return {std::min(groups, kMostGroups), 1, 1};
}

Groups VulkanOps::by_four(std::string_view kernel, std::uint32_t width, std::uint32_t rows) const {
  return {divided_up(width, std::uint64_t{4} * group_size(device_.facts(), kernel)), rows, 1};
}

VulkanOps::Products VulkanOps::products_of(std::span<const graph::Projection> projections) const {
  Products products;
  if (projections.size() > products.all.size()) std::abort();  // a change of the decoder
  for (const graph::Projection& p : projections)
    products.all[products.count++] = {&weights_[p.weight], at(p.out)};
  return products;
}

void VulkanOps::multiply(std::uint32_t n, Address x, std::span<const Product> products, bool add) {
  after_all();
  prepare(n, x, products);
  while (!products.empty() && !failure_) {
    // Matrices of one format share a dispatch.
    std::size_t count = 1;
    while (count < std::min(products.size(), kMaxMatrices) &&
           products[count].w->format == products[0].w->format)
      ++count;
    MatmulPush push{};
    push.x = x;
    for (std::size_t i = 0; i < count; ++i) {
      push.w[i] = products[i].w->address;
      push.y[i] = products[i].y;
      push.rows[i] = products[i].w->rows;
    }
    push.n = n;
    push.cols = products[0].w->cols;
    push.row_bytes = products[0].w->row_bytes();
    push.add = add ? 1 : 0;
    if (const std::size_t done = multiply_by_texel(push, products.first(count)); done > 0) {
      products = products.subspan(done);
      continue;
    }
    const MatmulPlan plan =
        plan_matmul(device_.facts(), products[0].w->format, std::span(push.rows).first(count), push.cols, n);
    if (plan.prepared) push.x = prepared_.address();
    auto kernel = device_.pipeline(plan.kernel, plan.constants, sizeof push);
    if (!kernel) return keep(std::move(kernel.error()));
    commands_->dispatch(*kernel, push, plan.groups);
    products = products.subspan(count);
  }
}

std::size_t VulkanOps::multiply_by_texel(MatmulPush push, std::span<const Product> products) {
  if (!by_texel(device_.facts(), products[0].w->format.type)) return 0;
  auto x = device_.texels(push.x);
  if (!x) {
    keep(std::move(x.error()));
    return products.size();
  }
  push.x -= x->begin;
  std::array<std::uint64_t, kMaxMatrices> at{};
  Texels w;
  std::size_t count = 0;
  for (; count < products.size(); ++count) {
    auto found = device_.texels(push.w[count]);
    if (!found) {
      keep(std::move(found.error()));
      return products.size();
    }
    if (count > 0 && found->set != w.set) break;  // a file is imported by windows, and this is the next one
    w = *found;
    push.w[count] = at[count] = push.w[count] - w.begin;
  }
  products = products.first(count);
  std::fill(push.rows + count, std::end(push.rows), 0U);
  if (multiply_by_panel(push, products, w, *x)) return count;
  const auto plan =
      plan_texel_matmul(device_.facts(), products[0].w->format.type, std::span(push.rows).first(count),
                        push.cols, push.n, std::span(at).first(count));
  if (!plan) return 0;
  auto kernel = device_.pipeline(plan->kernel, plan->constants, sizeof push);
  if (kernel)
    commands_->dispatch(*kernel, push, plan->groups, std::array{w, *x});
  else
    keep(std::move(kernel.error()));
  return count;
}

// push: x and w are places already.
bool VulkanOps::multiply_by_panel(const MatmulPush& push, std::span<const Product> products, const Texels& w,
                                  const Texels& x) {
  struct Part {
    MatmulPlan plan;
    Texels y;
  };
  std::vector<Part> parts;
  for (std::size_t i = 0; i < products.size(); ++i) {
    auto y = device_.texels(push.y[i]);
    if (!y) {
      keep(std::move(y.error()));
      return true;
    }
    auto plan = plan_texel_panel(device_.facts(), products[i].w->format.type, push.rows[i], push.cols, push.n,
                                 push.w[i], push.y[i] - y->begin);
    if (!plan) return false;
    parts.push_back({std::move(*plan), *y});
  }
  for (std::size_t i = 0; i < products.size(); ++i) {
    const auto& [plan, y] = parts[i];
    MatmulPush one = push;
    one.w[0] = push.w[i];
    one.y[0] = push.y[i] - y.begin;
    one.rows[0] = push.rows[i];
    auto kernel = device_.pipeline(plan.kernel, plan.constants, sizeof one);
    if (!kernel) {
      keep(std::move(kernel.error()));
      return true;
    }
    commands_->dispatch(*kernel, one, plan.groups, std::array{w, x, y});
  }
  return true;
}

void VulkanOps::prepare(std::uint32_t n, Address x, std::span<const Product> products) {
  const auto taken = std::ranges::find_if(
      products, [&](const Product& p) { return by_integer_dot(device_.facts(), p.w->format.type); });
  if (taken == products.end()) return;
  const std::uint32_t blocks = n * (taken->w->cols / FLYBALL_PREPARED_VALUES);
  commands_->dispatch(prepare_activations_, PrepareActivationsPush{x, prepared_.address(), blocks, 0},
                      prepare_groups(device_.facts(), blocks));
  after_all();
}

void VulkanOps::multiply_experts(std::uint32_t pairs, Address x, std::uint32_t per_row,
                                 std::span<const Product> products) {
  after_all();
  prepare(pairs / per_row, x, products);
  for (const auto& [w, y] : products) {
    if (failure_) return;
    const ExpertPlan plan =
        plan_expert_matmul(device_.facts(), w->format, w->rows, w->cols, pairs, w->experts);
    const MoeMatmulPush push{plan.matmul.prepared ? prepared_.address() : x,
                             w->address,
                             y,
                             expert_ids_.address(),
                             expert_offsets_.address(),
                             expert_order_.address(),
                             per_row,
                             pairs,
                             w->rows,
                             w->cols,
                             w->row_bytes(),
                             w->experts};
    auto kernel = device_.pipeline(plan.matmul.kernel, plan.matmul.constants, sizeof push);
    if (!kernel) return keep(std::move(kernel.error()));
    commands_->dispatch(*kernel, push, plan.matmul.groups);
  }
}

void VulkanOps::begin(const graph::StepInputs& inputs) {
  if (auto ok = step_.write(inputs); !ok) keep(std::move(ok.error()));
}

void VulkanOps::embed(std::uint32_t n, graph::WeightRef table, Buffer out) {
  const DeviceWeight& w = weights_[table];
  after_all();
  commands_->dispatch(
      embed_,
      EmbedPush{w.address, step_.tokens_at(), at(out), w.row_bytes(), w.cols, config_.stream_scale(), 0},
      {1, n, 1});
}

void VulkanOps::rms_norm(std::uint32_t n, Buffer x, graph::WeightRef weight, Buffer out) {
  after_all();
  RmsNormPush push{at(x), weights_[weight].address, at(out), cols(x), config_.stream_eps()};
  if (eights_)
    dispatch_eights(rms_norm_, push, {&push.x, &push.weight, &push.to}, {1, n, 1});
  else
    commands_->dispatch(rms_norm_, push, {1, n, 1});
}

void VulkanOps::matmul(std::uint32_t n, Buffer x, std::span<const graph::Projection> projections) {
  multiply(n, at(x), products_of(projections), false);
}

void VulkanOps::matmul_add(std::uint32_t n, Buffer x, graph::WeightRef weight, Buffer residual) {
  const Product product{&weights_[weight], at(residual)};
  multiply(n, at(x), {&product, 1}, true);
}

void VulkanOps::bias(std::uint32_t n, Buffer x, graph::WeightRef b) {
  after_all();
  commands_->dispatch(bias_, BiasPush{at(x), weights_[b].address, cols(x), 0}, by_four("bias", cols(x), n));
}

void VulkanOps::head_norm(std::uint32_t n, Buffer x, graph::WeightRef weight) {
  after_all();
  commands_->dispatch(head_norm_,
                      HeadNormPush{at(x), weights_[weight].address, cols(x) / config_.head_dim,
                                   config_.head_dim, config_.norm_eps, 0},
                      {1, n, 1});
}

void VulkanOps::rope_kv_store(std::uint32_t n, std::uint32_t layer, Buffer q, Buffer k, Buffer v) {
  after_all();
  const std::uint32_t pairs = (cols(q) + cols(k) + cols(v)) / 2;
  commands_->dispatch(
      rope_kv_store_,
      RopeKvStorePush{at(q), at(k), at(v), step_.rotations_at(device::query_table_of(config_, layer)),
                      step_.rotations_at(device::key_table_of(config_, layer)), step_.slots_at(),
                      keys_[layer].address(), values_[layer].address(), config_.n_heads, config_.n_kv_heads,
                      config_.head_dim, config_.rope_dim(), block_size_, 0},
      by_four("rope_kv_store", pairs, n));
}

void VulkanOps::attend(std::uint32_t, std::uint32_t layer, Buffer q, Buffer out) {
  const std::uint32_t window = config_.layer(layer).window;
  AttendPush push{at(q),
                  keys_[layer].address(),
                  values_[layer].address(),
                  step_.row_work_at(),
                  step_.tables_at(),
                  at(out),
                  partial_.address(),
                  config_.n_kv_heads,
                  max_splits_,
                  config_.query_scale,
                  window != 0 ? window : UINT32_MAX};
  const auto run = [&](const Pipeline& kernel, StepBuffer::Grid grid) {
    if (step_.attends_by()[static_cast<std::size_t>(grid)])
      commands_->dispatch_indirect(kernel, push, step_.grids(), step_.grid_at(grid));
  };
  after_all();
  run(attend_rows_, StepBuffer::Grid::attend_rows);
  push.work = step_.split_work_at();
  run(attend_split_, StepBuffer::Grid::attend_split);
  if (!step_.attends_by()[static_cast<std::size_t>(StepBuffer::Grid::attend_combine)]) return;
  after_all();
  run(attend_combine_, StepBuffer::Grid::attend_combine);
}

void VulkanOps::glu(std::uint32_t n, Buffer gate, Buffer up) {
  const std::uint64_t count = std::uint64_t{n} * cols(gate);
  if (!eights_) return elementwise(glu_, "glu", count, gate, up);
  after_all();
  ElementwisePush push{at(gate), at(up), static_cast<std::uint32_t>(count), 0};
  dispatch_eights(glu_, push, {&push.x, &push.y}, by_stride("texel_glu", count / 2));
}

void VulkanOps::softcap(std::uint32_t n, Buffer x, float cap) {
  after_all();
  const std::uint64_t count = std::uint64_t{n} * cols(x);
  commands_->dispatch(softcap_, SoftcapPush{at(x), static_cast<std::uint32_t>(count), cap},
                      by_stride("softcap", count));
}

void VulkanOps::add(std::uint32_t n, Buffer x, Buffer y) {
  elementwise(add_, "add", std::uint64_t{n} * cols(x), x, y);
}

void VulkanOps::gather_wanted(Buffer x, Buffer out) {
  after_all();
  commands_->dispatch(gather_, GatherPush{at(x), step_.wanted_at(), at(out), cols(x), 0},
                      by_four("gather", cols(x), step_.wanted()));
}

void VulkanOps::top_k(Buffer logits, Buffer out) {
  after_all();
  commands_->dispatch(top_k_, TopKPush{at(logits), step_.asked_at(), at(out), cols(logits), 0},
                      {1, step_.asked(), 1});
}

void VulkanOps::moe_route(std::uint32_t n, Buffer router) {
  after_all();
  commands_->dispatch(moe_route_,
                      MoeRoutePush{at(router), expert_ids_.address(), expert_weights_.address(),
                                   config_.n_experts, config_.n_experts_used},
                      {1, n, 1});
  after_all();
  commands_->dispatch(moe_group_,
                      MoeGroupPush{expert_ids_.address(), expert_offsets_.address(), expert_order_.address(),
                                   n * config_.n_experts_used, config_.n_experts},
                      {1, 1, 1});
}

void VulkanOps::moe_matmul(std::uint32_t n, Buffer x, std::span<const graph::Projection> projections) {
  const std::uint32_t used = config_.n_experts_used;
  multiply_experts(n * used, at(x), used, products_of(projections));
}

void VulkanOps::moe_glu_matmul_add(std::uint32_t n, Buffer gate, Buffer up, graph::WeightRef down,
                                   Buffer residual) {
  const std::uint32_t used = config_.n_experts_used;
  glu(n * used, gate, up);
  const Product product{&weights_[down], expert_out_.address()};
  multiply_experts(n * used, at(gate), 1, {&product, 1});
  after_all();
  commands_->dispatch(
      moe_add_, MoeAddPush{expert_out_.address(), expert_weights_.address(), at(residual), used, config_.dim},
      by_four("moe_add", config_.dim, n));
}

}  // namespace flyball::vulkan
