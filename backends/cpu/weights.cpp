#include "backends/cpu/weights.hpp"

#include <cstring>

namespace flyball::cpu {
namespace {

using graph::WeightRef;
using graph::WeightRole;

// The weights of the layers whose role is one of `roles`, then `last`.
template <class Roles>
std::vector<WeightRef> present(const model::ModelWeights& weights, Roles&& roles, WeightRole last) {
  std::vector<WeightRef> refs;
  for (std::uint32_t layer = 0; layer < weights.n_layers(); ++layer)
    for (const model::RoleFacts& facts : model::kWeightRoles)
      if (roles(facts.role) && weights.of(facts.role, layer).data != nullptr)
        refs.push_back({facts.role, layer});
  refs.push_back({last, 0});
  return refs;
}

bool is_layer_vector(WeightRole role) {
  return model::of_a_layer(role) && model::kind_of(role) == model::WeightKind::vector;
}

}  // namespace

std::size_t CpuWeights::index(WeightRef ref) noexcept {
  return ref.layer * model::kWeightRoleCount + static_cast<std::size_t>(ref.role);
}

Result<CpuWeights> CpuWeights::load(const model::ModelFile& model, const kernels::cpu::Kernels& kernels,
                                    device::ThreadPool& pool, std::uint64_t expert_bytes_limit,
                                    const graph::LoadProgress& progress) {
  const model::ModelWeights& weights = model.weights();
  CpuWeights out;
  out.embedding_ = weights.of(WeightRole::token_embedding);
  out.in_place_.emplace_back(
      out.embedding_.data,
      out.embedding_.rows * kernels::row_bytes(out.embedding_.type, out.embedding_.cols));
  out.matrices_.resize(weights.n_layers() * model::kWeightRoleCount);
  out.vectors_begin_.resize(out.matrices_.size());

  const auto order = present(weights, model::is_layer_matrix, WeightRole::output);
  std::size_t packed_bytes = 0;
  for (const WeightRef ref : order) {
    const model::Weight& w = weights[ref];
    const std::size_t bytes = kernels.packed_bytes(w.type, w.rows, w.cols);
    packed_bytes += device::align_up(bytes);
    out.bytes_ += bytes != 0 ? bytes : w.matrix_bytes();
  }
  if (weights.of(WeightRole::output).data != weights.of(WeightRole::token_embedding).data ||
      packed_bytes != 0)
    out.bytes_ += out.embedding_.matrix_bytes();

  auto pages = device::Pages::allocate(packed_bytes, "the model's weights");
  if (!pages) return pass(pages);
  out.packed_ = std::move(*pages);

  // In bytes of the file. Experts that are packed when they are needed are not waited for.
  std::uint64_t done = 0, total = ExpertCache::file_bytes(model);
  for (const WeightRef ref : order) total += weights[ref].matrix_bytes();
  const auto loaded = [&](std::uint64_t bytes) {
    done += bytes;
    if (progress) progress(done, total);
  };
  const bool from_file = model.mapped();
  std::size_t at = 0;
  for (const WeightRef ref : order) {
    const model::Weight& w = weights[ref];
    CpuMatrix matrix{w.type, w.rows, w.cols, w.data};
    const std::size_t bytes = kernels.packed_bytes(w.type, w.rows, w.cols);
    if (bytes != 0) {
      std::byte* packed = out.packed_.data() + at;
      at += device::align_up(bytes);
      const PackJob job[] = {{w.source(), packed}};
      pack_matrices(kernels, pool, matrix, job);
      matrix.data = packed;
      if (from_file) release_source(w.source(), matrix);
    } else if (w.data != out.embedding_.data) {
      out.in_place_.emplace_back(w.data, w.rows * kernels::row_bytes(w.type, w.cols));
    }
    out.matrices_[index(ref)] = matrix;
    loaded(w.matrix_bytes());
  }

  // Copied: a file may align its tensors by less than a float.
  for (const WeightRef ref : present(weights, is_layer_vector, WeightRole::output_norm)) {
    const model::Weight& w = weights[ref];
    const std::size_t begin = out.vectors_.size();
    out.vectors_begin_[index(ref)] = begin;
    out.vectors_.resize(begin + w.cols);
    std::memcpy(out.vectors_.data() + begin, w.data, w.cols * sizeof(float));
  }

  if (model.config().n_experts > 0) {
    auto experts = ExpertCache::make(model, kernels, pool, expert_bytes_limit, loaded);
    if (!experts) return pass(experts);
    out.experts_ = std::move(*experts);
  }
  return out;
}

const CpuMatrix& CpuWeights::matrix(WeightRef ref) const noexcept {
  return matrices_[index(ref)];
}

const float* CpuWeights::vector(WeightRef ref) const noexcept {
  return vectors_.data() + vectors_begin_[index(ref)];
}

std::vector<std::span<const std::byte>> CpuWeights::held_memory() const {
  std::vector<std::span<const std::byte>> out;
  const auto add = [&](std::span<const std::byte> one) {
    if (!one.empty()) out.push_back(one);
  };
  add({packed_.data(), packed_.size()});
  for (const std::span<const std::byte> one : in_place_) add(one);
  add(std::as_bytes(std::span(vectors_)));
  if (experts_) add(experts_->held_memory());
  return out;
}

std::uint64_t CpuWeights::bytes() const noexcept {
  return bytes_ + (experts_ ? experts_->bytes() : 0);
}

}  // namespace flyball::cpu
