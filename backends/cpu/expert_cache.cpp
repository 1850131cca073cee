#include "backends/cpu/expert_cache.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>

#include "config/units.hpp"

namespace flyball::cpu {
namespace {

using graph::WeightRole;
constexpr WeightRole kRoles[] = {WeightRole::expert_gate, WeightRole::expert_up, WeightRole::expert_down};

std::uint64_t default_limit() {
  const std::uint64_t free = device::available_memory();
  return free == 0 ? std::numeric_limits<std::uint64_t>::max() : free / 4 * 3;
}

}  // namespace

Result<std::unique_ptr<ExpertCache>> ExpertCache::make(const model::ModelFile& model,
                                                       const kernels::cpu::Kernels& kernels,
                                                       device::ThreadPool& pool, std::uint64_t bytes_limit,
                                                       const std::function<void(std::uint64_t)>& loaded) {
  std::unique_ptr<ExpertCache> cache(new ExpertCache(model, kernels, pool));
  for (std::uint32_t i = 0; i < model.config().n_layers; ++i) {
    Layer& layer = cache->layers_.emplace_back();
    std::size_t bytes = 0;
    for (std::size_t m = 0; m < kMatrices; ++m) {
      const model::Weight& w = model.weights().of(kRoles[m], i);
      layer[m] = bytes;
      bytes += device::align_up(kernels.packed_bytes(w.type, w.rows, w.cols));
      cache->shapes_.push_back({w.type, w.rows, w.cols, nullptr});
    }
    cache->slot_bytes_ = std::max(cache->slot_bytes_, bytes);
  }
  // Each is below the file's size times the largest growth of packing, and the file is mapped: no overflow.
  const std::uint64_t limit = bytes_limit != 0 ? bytes_limit : default_limit();
  const std::uint64_t all = std::uint64_t{cache->n_experts_} * model.config().n_layers;
  const std::uint64_t one_layer = cache->n_experts_ * std::uint64_t{cache->slot_bytes_};
  const std::uint64_t fits = std::min(all, limit / cache->slot_bytes_);
  if (fits < cache->n_experts_) {
    const auto bytes = config::sizes_to_compare({one_layer, limit});
    return fail(ErrorCode::insufficient_memory, "Not enough memory for the experts of one layer: " +
                                                    bytes[0] + " are needed, " + bytes[1] + " are free.");
  }
  auto pages = device::Pages::allocate(fits * cache->slot_bytes_, "the model's experts");
  if (!pages) return pass(pages);
  cache->packed_ = std::move(*pages);
  cache->slots_.resize(fits);
  cache->slot_of_.assign(all, kNone);
  cache->missing_.reserve(cache->n_experts_);
  cache->jobs_.reserve(cache->n_experts_);
  if (fits == all) {
    std::vector<std::uint32_t> every(cache->n_experts_);
    std::iota(every.begin(), every.end(), 0U);
    for (std::uint32_t i = 0; i < model.config().n_layers; ++i) {
      cache->require(i, every);
      if (loaded) loaded(file_bytes(model) / model.config().n_layers);
    }
  } else {
    cache->packed_.commit();  // the KV cache takes its share of what is left after this
  }
  return cache;
}

std::uint64_t ExpertCache::file_bytes(const model::ModelFile& model) noexcept {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < model.config().n_layers; ++i)
    for (const WeightRole role : kRoles) {
      const model::Weight& w = model.weights().of(role, i);
      bytes += w.experts * w.matrix_bytes();
    }
  return bytes;
}

std::uint32_t ExpertCache::take_slot() noexcept {
  const auto it = std::ranges::min_element(slots_, {}, &Slot::used);
  if (it->owner != kNone) slot_of_[it->owner] = kNone;
  return static_cast<std::uint32_t>(it - slots_.begin());
}

void ExpertCache::require(std::uint32_t layer, std::span<const std::uint32_t> experts) {
  ++clock_;
  missing_.clear();
  for (const std::uint32_t expert : experts) {
    const std::uint32_t slot = slot_of_[layer * n_experts_ + expert];
    if (slot == kNone) {
      missing_.push_back(expert);
    } else {
      slots_[slot].used = clock_;
    }
  }
  if (missing_.empty()) return;
  for (const std::uint32_t expert : missing_) {
    const std::uint32_t owner = layer * n_experts_ + expert;
    const std::uint32_t slot = take_slot();
    slots_[slot] = {owner, clock_};
    slot_of_[owner] = slot;
  }
  pack_missing(layer);
}

void ExpertCache::pack_missing(std::uint32_t layer) {
  n_packed_ += missing_.size();
  const bool from_file = model_.mapped();
  for (std::size_t m = 0; m < kMatrices; ++m) {
    const model::Weight& w = file_weight({kRoles[m], layer});
    if (kernels_.packed_bytes(w.type, w.rows, w.cols) == 0) continue;
    jobs_.clear();
    for (const std::uint32_t expert : missing_) {
      const std::size_t slot = slot_of_[layer * n_experts_ + expert];
      jobs_.push_back({w.source(expert), packed_.data() + slot * slot_bytes_ + layers_[layer][m]});
    }
    const CpuMatrix shape{w.type, w.rows, w.cols, nullptr};
    pack_matrices(kernels_, pool_, shape, jobs_);
    if (!from_file) continue;
    for (const PackJob& job : jobs_) release_source(job.from, shape);
  }
}

const model::Weight& ExpertCache::file_weight(graph::WeightRef ref) const noexcept {
  return model_.weights()[ref];
}

kernels::DType ExpertCache::type(graph::WeightRef ref) const noexcept {
  return file_weight(ref).type;
}

CpuMatrix ExpertCache::matrix(graph::WeightRef ref, std::uint32_t expert) const noexcept {
  const model::Weight& w = file_weight(ref);
  CpuMatrix matrix{w.type, w.rows, w.cols, w.source(expert).data};
  if (kernels_.packed_bytes(w.type, w.rows, w.cols) != 0) {
    const std::size_t slot = slot_of_[ref.layer * n_experts_ + expert];
    const auto m = static_cast<std::size_t>(std::ranges::find(kRoles, ref.role) - std::begin(kRoles));
    matrix.data = packed_.data() + slot * slot_bytes_ + layers_[ref.layer][m];
  }
  return matrix;
}

}  // namespace flyball::cpu
