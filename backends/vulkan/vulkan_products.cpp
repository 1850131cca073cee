// Products of weights: the kernels they need, and their verbs.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <utility>

#include "backends/vulkan/vulkan_ops.hpp"

namespace flyball::vulkan {
namespace {

using graph::Buffer;

}  // namespace

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
  if (auto ok = device_.build(specs); !ok) return std::unexpected(std::move(ok.error()));
  return counts;
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

std::uint64_t VulkanOps::most_prepared_bytes() const {
  std::uint64_t most = 0;
  for (const DeviceWeight& w : weights_.all()) {
    std::uint64_t rows = std::max(limits_.step_tokens, limits_.logit_rows);
    if (w.experts > 1 && w.cols == config_.expert_ffn_dim) rows *= config_.n_experts_used;
    most = std::max(most, prepared_bytes(device_.facts(), w.format.type, rows, w.cols));
  }
  return most;
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

void VulkanOps::multiply(std::uint32_t n, Address x, std::span<const Product> products, bool add) {
  after_all();
  prepare(n, x, products);
  while (!products.empty() && !failure_) {
    // Those of one format share a dispatch.
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

VulkanOps::Products VulkanOps::products_of(std::span<const graph::Projection> projections) const {
  Products products;
  if (projections.size() > products.all.size()) std::abort();  // a change of the decoder
  for (const graph::Projection& p : projections)
    products.all[products.count++] = {&weights_[p.weight], at(p.out)};
  return products;
}

void VulkanOps::matmul(std::uint32_t n, Buffer x, std::span<const graph::Projection> projections) {
  multiply(n, at(x), products_of(projections), false);
}

void VulkanOps::matmul_add(std::uint32_t n, Buffer x, graph::WeightRef weight, Buffer residual) {
  const Product product{&weights_[weight], at(residual)};
  multiply(n, at(x), {&product, 1}, true);
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

void VulkanOps::moe_matmul(std::uint32_t n, Buffer x, std::span<const graph::Projection> projections) {
  const std::uint32_t used = config_.n_experts_used;
  multiply_experts(n * used, at(x), used, products_of(projections));
}

}  // namespace flyball::vulkan
