#include "backends/opencl/weights.hpp"

#include <algorithm>
#include <cstring>

#include "backends/graph/weights.hpp"

namespace flyball::opencl {
namespace {

using graph::WeightRef;
using graph::WeightRole;

// What drivers with zero copies ask of memory they did not allocate.
constexpr std::uintptr_t kPage = 4096;

std::size_t slot(WeightRef ref) noexcept {
  return ref.layer * graph::kWeightRoleCount + static_cast<std::size_t>(ref.role);
}

std::span<const std::byte> bytes_of(const model::Weight& w) {
  return {w.data, w.experts * w.matrix_bytes()};
}

// F32 always: model_file refuses other ones.
bool is_vector(WeightRole role) {
  using enum WeightRole;
  switch (role) {
    case attn_norm:
    case ffn_norm:
    case output_norm:
    case q_bias:
    case k_bias:
    case v_bias:
    case q_norm:
    case k_norm:
      return true;
    default:
      return false;
  }
}

bool is_of_the_model(WeightRole role) {
  using enum WeightRole;
  return role == token_embedding || role == output_norm || role == output;
}

struct Entry {
  WeightRef ref;
  const model::Weight* weight;
};

// What the model has, the embedding table first.
std::vector<Entry> entries(const model::ModelWeights& weights) {
  std::vector<Entry> all;
  const auto add = [&](WeightRef ref) {
    if (const model::Weight& w = graph::weight_of(weights, ref); w.data != nullptr) all.push_back({ref, &w});
  };
  for (std::size_t i = 0; i < graph::kWeightRoleCount; ++i) {
    const auto role = static_cast<WeightRole>(i);
    if (is_of_the_model(role)) {
      add({role, 0});
      continue;
    }
    for (std::uint32_t layer = 0; layer < weights.layers.size(); ++layer) add({role, layer});
  }
  return all;
}

}  // namespace

Result<Weights> Weights::load(Device& device, const model::ModelFile& model, bool in_place,
                              const UploadProgress& progress) {
  const std::vector<Entry> all = entries(model.weights());
  Weights out;
  out.in_place_ = in_place;
  out.index_.resize((model.weights().layers.size() + 1) * graph::kWeightRoleCount);

  std::vector<float> vectors;
  std::uint64_t to_upload = 0;
  for (const Entry& e : all) {
    if (is_vector(e.ref.role)) {
      out.index_[slot(e.ref)] = static_cast<std::uint32_t>(vectors.size());
      const std::size_t at = vectors.size();
      vectors.resize(at + e.weight->cols);
      std::memcpy(vectors.data() + at, e.weight->data, e.weight->cols * sizeof(float));
    } else {
      to_upload += bytes_of(*e.weight).size();
    }
  }
  auto buffer = device.allocate(vectors.size() * sizeof(float), "the model's norms");
  if (!buffer) return std::unexpected(std::move(buffer.error()));
  out.vectors_ = std::move(*buffer);
  if (auto ok = device.write(out.vectors_, 0, std::as_bytes(std::span(vectors))); !ok)
    return std::unexpected(std::move(ok.error()));
  out.bytes_ = out.vectors_.bytes;

  Uploader uploader;
  if (!in_place) {
    auto made = Uploader::make(device, to_upload, progress);
    if (!made) return std::unexpected(std::move(made.error()));
    uploader = std::move(*made);
  }
  for (const Entry& e : all) {
    if (is_vector(e.ref.role)) continue;
    // Tied embeddings: one matrix in two roles.
    const bool tied =
        e.ref.role == WeightRole::output && e.weight->data == model.weights().token_embedding.data;
    if (tied) {
      out.index_[slot(e.ref)] = out.index_[slot({WeightRole::token_embedding})];
      continue;
    }
    DeviceMatrix matrix;
    matrix.type = e.weight->type;
    matrix.rows = e.weight->rows;
    matrix.cols = e.weight->cols;
    matrix.experts = e.weight->experts;
    matrix.of_experts = e.ref.role >= WeightRole::expert_gate;
    std::span<const std::byte> bytes = bytes_of(*e.weight);
    if (in_place) {
      if (!model.mapping().empty()) {  // from the page it begins on; the mapping begins on one, too
        matrix.at = reinterpret_cast<std::uintptr_t>(bytes.data()) % kPage;
        bytes = {bytes.data() - matrix.at, bytes.size() + matrix.at};
      }
      auto imported = device.import(bytes, "a weight in the model file");
      if (!imported) return std::unexpected(std::move(imported.error()));
      matrix.buffer = std::move(*imported);
    } else {
      auto allocated = device.allocate(bytes.size(), "the model's weights");
      if (!allocated) return std::unexpected(std::move(allocated.error()));
      matrix.buffer = std::move(*allocated);
      if (auto ok = uploader.put(matrix.buffer, 0, bytes); !ok) return std::unexpected(std::move(ok.error()));
    }
    out.bytes_ += bytes_of(*e.weight).size();
    out.index_[slot(e.ref)] = static_cast<std::uint32_t>(out.matrices_.size());
    out.matrices_.push_back(std::move(matrix));
  }
  if (!in_place)
    if (auto ok = uploader.finish(); !ok) return std::unexpected(std::move(ok.error()));
  return out;
}

const DeviceMatrix& Weights::matrix(WeightRef ref) const noexcept {
  return matrices_[index_[slot(ref)]];
}

std::uint32_t Weights::vector_at(WeightRef ref) const noexcept {
  return index_[slot(ref)];
}

}  // namespace flyball::opencl
