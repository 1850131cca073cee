#include "backends/cpu/weights.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace flyball::cpu {
namespace {

constexpr std::size_t kMatricesPerLayer = 7;
constexpr std::size_t kAlignment = 64;  // a cache line, and the widest vector
// Row groups of one claim while packing: some hundred kilobytes, so that claims cost nothing and threads end
// together.
constexpr std::uint32_t kPackClaimRows = 256;

std::size_t slot(graph::WeightRole role) {
  using enum graph::WeightRole;
  switch (role) {
    case q:
      return 0;
    case k:
      return 1;
    case v:
      return 2;
    case o:
      return 3;
    case gate:
      return 4;
    case up:
      return 5;
    case down:
      return 6;
    default:
      std::abort();
  }
}

std::size_t align_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Result<CpuWeights> CpuWeights::load(const model::ModelFile& model, const kernels::cpu::Kernels& kernels,
                                    ThreadPool& pool) {
  const model::ModelWeights& weights = model.weights();
  CpuWeights out;
  out.dim_ = model.config().dim;
  out.n_layers_ = model.config().n_layers;
  out.embedding_ = weights.token_embedding;

  std::vector<const model::Weight*> order;
  for (const model::LayerWeights& l : weights.layers)
    for (const model::Weight* w : {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down}) order.push_back(w);
  order.push_back(&weights.output);

  std::size_t packed_bytes = 0;
  for (const model::Weight* w : order) {
    const std::size_t bytes = kernels.packed_bytes(w->type, w->rows, w->cols);
    packed_bytes += align_up(bytes);
    out.bytes_ += bytes != 0 ? bytes : w->rows * kernels::row_bytes(w->type, w->cols);
  }
  if (weights.output.data != weights.token_embedding.data || packed_bytes != 0)
    out.bytes_ += out.embedding_.rows * kernels::row_bytes(out.embedding_.type, out.embedding_.cols);

  auto pages = Pages::allocate(packed_bytes, "the model's weights");
  if (!pages) return std::unexpected(std::move(pages.error()));
  out.packed_ = std::move(*pages);

  const bool from_file = !model.mapping().empty();
  std::size_t at = 0;
  for (const model::Weight* w : order) {
    CpuMatrix matrix{w->type, w->rows, w->cols, w->data};
    const std::size_t bytes = kernels.packed_bytes(w->type, w->rows, w->cols);
    if (bytes != 0) {
      std::byte* packed = out.packed_.data() + at;
      at += align_up(bytes);
      const std::uint32_t group = kernels.row_group(w->type);
      const std::uint32_t claim = (kPackClaimRows + group - 1) / group * group;
      pool.for_each((w->rows + claim - 1) / claim, [&](std::uint32_t i) {
        kernels.pack(w->type, w->rows, w->cols, w->data, packed,
                     {i * claim, std::min(w->rows, (i + 1) * claim)});
      });
      matrix.data = packed;
      if (from_file) release_file_pages({w->data, w->rows * kernels::row_bytes(w->type, w->cols)});
    }
    out.matrices_.push_back(matrix);
  }

  // Copied: a file may align its tensors by less than a float.
  const auto copy_norm = [&](const model::Weight& w) {
    const std::size_t begin = out.norms_.size();
    out.norms_.resize(begin + out.dim_);
    std::memcpy(out.norms_.data() + begin, w.data, out.dim_ * sizeof(float));
  };
  for (const model::LayerWeights& l : weights.layers) {
    copy_norm(l.attn_norm);
    copy_norm(l.ffn_norm);
  }
  copy_norm(weights.output_norm);
  return out;
}

const CpuMatrix& CpuWeights::matrix(graph::WeightRef ref) const noexcept {
  if (ref.role == graph::WeightRole::output) return matrices_.back();
  return matrices_[ref.layer * kMatricesPerLayer + slot(ref.role)];
}

const float* CpuWeights::norm(graph::WeightRef ref) const noexcept {
  std::size_t index = 2 * std::size_t{n_layers_};
  if (ref.role == graph::WeightRole::attn_norm) index = 2 * std::size_t{ref.layer};
  if (ref.role == graph::WeightRole::ffn_norm) index = 2 * std::size_t{ref.layer} + 1;
  return norms_.data() + index * dim_;
}

}  // namespace flyball::cpu
