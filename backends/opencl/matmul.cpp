#include "backends/opencl/matmul.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace flyball::opencl {

MatmulDevice matmul_device(const DeviceFacts& f) noexcept {
  return {f.processor, f.vector_floats, f.max_work_group, f.local_bytes};
}

Matmul::Matmul(Device& device, Programs& programs, TuningTable tuning)
    : device_(device),
      programs_(programs),
      shape_(matmul_device(device.facts())),
      tuning_(std::move(tuning)),
      group_items_(shape_.processor ? 1 : std::bit_floor(std::clamp(shape_.max_work_group, 1U, kMoeGroupItems))) {}

Result<std::unique_ptr<Matmul>> Matmul::make(Device& device, Programs& programs, const Weights& weights,
                                             std::uint32_t step_tokens, std::uint32_t experts_used,
                                             TuningTable tuning) {
  for (;;) {
    std::unique_ptr<Matmul> out(new Matmul(device, programs, tuning));
    auto ok = out->warm_up(weights, step_tokens, experts_used);
    if (ok) return out;
    std::optional<TuningTable> next;
    if (ok.error().code == ErrorCode::model_unsupported)
      next = without_what_needs_more(tuning, out->not_built_);
    if (!next) return pass(ok);
    tuning = std::move(*next);
  }
}

Result<void> Matmul::warm_up(const Weights& weights, std::uint32_t step_tokens, std::uint32_t experts_used) {
  // Smaller ones first: a kernel is run with the first matrix that needs it.
  std::vector<const DeviceMatrix*> matrices;
  for (const DeviceMatrix& w : weights.matrices()) matrices.push_back(&w);
  std::ranges::stable_sort(matrices, {},
                           [](const DeviceMatrix* w) { return std::uint64_t{w->rows} * w->cols; });
  const auto classes = token_classes(step_tokens);
  std::uint64_t rows = 0, cols = 0;
  for (const DeviceMatrix* w : matrices) {
    rows = std::max<std::uint64_t>(rows, w->rows);
    cols = std::max<std::uint64_t>(cols, w->cols);
  }
  auto x = device_.allocate(classes.back() * cols * sizeof(float), "the warm-up");
  if (!x) return pass(x);
  auto y = device_.allocate(classes.back() * rows * sizeof(float), "the warm-up");
  if (!y) return pass(y);
  std::set<const Kernel*> ran;
  for (const DeviceMatrix* w : matrices) {
    const std::size_t before = ran.size();
    if (w->of_experts) {
      if (auto ok = warm_up_experts(*w, step_tokens * experts_used, *x, ran); !ok) return pass(ok);
    } else {
      const Product product{w, &*y};
      for (const std::uint32_t n : classes) {
        const auto dispatch = product_dispatch(n, w->type, {&w->rows, 1}, w->cols, w->added);
        if (!dispatch) return pass(dispatch);
        if (!ran.insert(dispatch->kernel).second) continue;
        if (auto ok = run(n, *x, {&product, 1}, w->added); !ok) return ok;
      }
    }
    if (ran.size() == before) continue;
    if (auto ok = device_.finish(); !ok) return pass(ok);
    programs_.store();  // a start that is given up for taking too long is not in vain
  }
  return {};
}

Result<void> Matmul::warm_up_experts(const DeviceMatrix& w, std::uint32_t most_pairs, const Memory& x,
                                     std::set<const Kernel*>& ran) {
  std::vector<std::uint32_t> classes;
  for (const std::uint32_t pairs : pair_classes(most_pairs, w.experts)) {
    const auto dispatch = expert_dispatch(pairs, w);
    if (!dispatch) return pass(dispatch);
    if (ran.insert(dispatch->kernel).second) classes.push_back(pairs);
  }
  if (classes.empty()) return {};
  const std::uint64_t bytes = std::uint64_t{classes.back()} * sizeof(std::uint32_t);
  ExpertChoice choice;  // the first expert for all
  choice.n_experts = w.experts;
  Memory y;
  for (const auto& [size, to] :
       {std::pair(bytes, &choice.ids), std::pair(bytes, &choice.order),
        std::pair((std::uint64_t{w.experts} + 1) * sizeof(std::uint32_t), &choice.offsets),
        std::pair(bytes * w.rows, &y)}) {
    auto memory = device_.allocate(size, "the warm-up");
    if (!memory) return pass(memory);
    *to = std::move(*memory);
  }
  for (const std::uint32_t pairs : classes) {
    if (auto ok = group(pairs, choice); !ok) return pass(ok);
    if (auto ok = run_experts(pairs, x, pairs, w, choice, y); !ok) return pass(ok);
  }
  return device_.finish();
}

Result<Matmul::Dispatch> Matmul::built(const MatmulPlan& plan) {
  const std::string key = std::string(plan.kernel) + " " + plan.options;
  auto it = kernels_.find(key);
  if (it == kernels_.end()) {
    auto kernel = programs_.kernel(std::string(plan.kernel), plan.files, plan.options);
    if (!kernel) {
      not_built_ = plan.kernel;
      return pass(kernel);
    }
    it = kernels_.emplace(key, std::move(*kernel)).first;
  }
  Dispatch dispatch;
  dispatch.kernel = &it->second;
  dispatch.grid.global = {plan.global[0], plan.global[1], 1};
  dispatch.grid.local = {plan.local[0], plan.local[1], 1};
  return dispatch;
}

const MatmulTuning& Matmul::tuning_of(kernels::DType type, std::uint32_t rows, std::uint32_t cols,
                                      RowClass c) {
  const TuningKey key{{type, rows, cols}, c};
  if (tuning_.has(key)) ++tuned_;
  return tuning_.at(key);
}

Result<Matmul::Dispatch> Matmul::product_dispatch(std::uint32_t n, kernels::DType type,
                                                  std::span<const std::uint32_t> rows, std::uint32_t cols,
                                                  bool add) {
  std::array<std::uint32_t, 6> asked{n, static_cast<std::uint32_t>(type) * 2 + (add ? 1U : 0U)};
  std::ranges::copy(rows, asked.begin() + 2);
  asked.back() = cols;
  if (const auto it = planned_.find(asked); it != planned_.end()) return it->second;
  const MatmulTuning& tuning = tuning_of(type, std::ranges::max(rows), cols, row_class(n));
  auto dispatch = built(plan_matmul(shape_, tuning, type, rows, n, add));
  if (dispatch) planned_.emplace(asked, *dispatch);
  return dispatch;
}

Result<Matmul::Dispatch> Matmul::expert_dispatch(std::uint32_t pairs, const DeviceMatrix& w) {
  // No product has rows 0 first: these keys are the experts' own.
  const std::array<std::uint32_t, 6> asked{pairs, static_cast<std::uint32_t>(w.type), 0, w.rows, w.experts,
                                           w.cols};
  if (const auto it = planned_.find(asked); it != planned_.end()) return it->second;
  const RowClass rows = experts_are_grouped(pairs, w.experts) ? RowClass::many : RowClass::one;
  const ExpertPlan plan =
      plan_expert_matmul(shape_, tuning_of(w.type, w.rows, w.cols, rows), w.type, w.rows, pairs, w.experts);
  auto dispatch = built(plan.matmul);
  if (!dispatch) return pass(dispatch);
  dispatch->grouped = plan.grouped;
  planned_.emplace(asked, *dispatch);
  return dispatch;
}

Result<void> Matmul::run(std::uint32_t n, const Memory& x, std::span<const Product> products, bool add) {
  while (!products.empty()) {
    // Matrices of one format share a dispatch.
    std::size_t count = 1;
    while (count < std::min(products.size(), kMaxMatrices) && products[count].w->type == products[0].w->type)
      ++count;
    std::array<std::uint32_t, kMaxMatrices> rows{};
    std::array<Product, kMaxMatrices> parts{products[0], products[0], products[0]};
    for (std::size_t i = 0; i < count; ++i) {
      parts[i] = products[i];
      rows[i] = products[i].w->rows;
    }
    const auto dispatch =
        product_dispatch(n, products[0].w->type, std::span(rows).first(count), products[0].w->cols, add);
    if (!dispatch) return pass(dispatch);
    if (auto ok = device_.run(*dispatch->kernel, dispatch->grid, x, n, products[0].w->cols,
                              parts[0].w->buffer, *parts[0].y, rows[0], parts[1].w->buffer, *parts[1].y,
                              rows[1], parts[2].w->buffer, *parts[2].y, rows[2]);
        !ok)
      return ok;
    products = products.subspan(count);
  }
  return {};
}

Result<void> Matmul::group(std::uint32_t pairs, const ExpertChoice& choice) {
  const auto dispatch = with_fewer_items(group_items_, [&](std::uint32_t items) {
    MatmulDevice device = shape_;
    device.max_work_group = items;
    return built(plan_moe_group(device));
  });
  if (!dispatch) return pass(dispatch);
  return device_.run(*dispatch->kernel, dispatch->grid, choice.ids, pairs, choice.n_experts, choice.offsets,
                     choice.order);
}

Result<void> Matmul::run_experts(std::uint32_t pairs, const Memory& x, std::uint32_t per_row,
                                 const DeviceMatrix& w, const ExpertChoice& choice, const Memory& y) {
  const auto dispatch = expert_dispatch(pairs, w);
  if (!dispatch) return pass(dispatch);
  const cl_ulong stride = w.expert_bytes;
  if (!dispatch->grouped)
    return device_.run(*dispatch->kernel, dispatch->grid, x, per_row, w.cols, w.buffer, stride, choice.ids, y,
                       w.rows);
  return device_.run(*dispatch->kernel, dispatch->grid, x, per_row, w.cols, w.buffer, stride, choice.offsets,
                     choice.order, y, w.rows);
}

}  // namespace flyball::opencl
