// A model opened and understood: the mappings, the tensors, the shape, and each weight by its role.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "backends/model/gguf.hpp"
#include "backends/model/mapped_file.hpp"
#include "backends/model/mlx.hpp"
#include "backends/model/model_config.hpp"
#include "backends/model/weight_roles.hpp"
#include "kernels/formats/source_rows.hpp"

namespace flyball::model {

// One weight in the file's own layout: [experts, rows, cols], row-major, cols contiguous. A norm or a bias
// has one row.
struct Weight {
  kernels::DType type = kernels::DType::f32;
  std::uint32_t rows = 0, cols = 0;
  const std::byte* data = nullptr;  // null: this model has none of this role
  std::uint32_t experts = 1;        // matrices one after the other
  // Affine types alone: [experts, rows, cols / group] each, of scale_type.
  const std::byte* scales = nullptr;
  const std::byte* biases = nullptr;
  kernels::DType scale_type = kernels::DType::f32;

  // Rows of one of the matrices.
  kernels::SourceRows source(std::uint32_t expert = 0) const noexcept {
    return kernels::SourceRows(data, scales, biases, scale_type)
        .after(type, std::uint64_t{expert} * rows, cols);
  }
  // Of one matrix, its scales and biases included.
  std::uint64_t matrix_bytes() const noexcept {
    return rows * kernels::row_bytes(type, cols) + 2 * source().scale_bytes(type, rows, cols);
  }
};

class ModelWeights {
 public:
  ModelWeights() = default;
  explicit ModelWeights(std::uint32_t n_layers) : layers_(n_layers) {}
  std::uint32_t n_layers() const noexcept { return static_cast<std::uint32_t>(layers_.size()); }
  // Its data is null where the model has none of that role; the output is the embedding table where tied;
  // the output norm is divided by ModelConfig::logit_scale.
  // Precondition: the layer exists.
  const Weight& operator[](WeightRef ref) const noexcept {
    return layers_[ref.layer][static_cast<std::size_t>(ref.role)];
  }
  const Weight& of(WeightRole role, std::uint32_t layer = 0) const noexcept { return (*this)[{role, layer}]; }
  Weight& operator[](WeightRef ref) noexcept {
    return layers_[ref.layer][static_cast<std::size_t>(ref.role)];
  }

 private:
  std::vector<std::array<Weight, kWeightRoleCount>> layers_;  // weights of no layer are in the first one
};

class ModelFile {
 public:
  // A GGUF file, the first shard of a split one with its siblings beside it (split_name.hpp), or an MLX
  // directory. MappedFile::open's errors; model_invalid (missing or unknown tensors, wrong shapes and shards
  // that do not fit are named; a GGUF file's norms and biases must be F32); model_unsupported (mlx.hpp);
  // insufficient_memory. sha256: "", or what the file's bytes must hash to, those of a split model one shard
  // after the other (pin.hpp); invalid_value: a directory has none.
  static Result<std::unique_ptr<ModelFile>> open(const std::filesystem::path& path,
                                                 std::string_view sha256 = {});
  // Over bytes that outlive the result and begin at a multiple of 8 (the embedded demo model, tests,
  // fuzzers). model_invalid: one shard of several.
  static Result<std::unique_ptr<ModelFile>> from_bytes(std::span<const std::byte> bytes);
  // Over all shards of a split file, in order, likewise.
  static Result<std::unique_ptr<ModelFile>> from_shards(
      const std::vector<std::span<const std::byte>>& shards);
  // Over the files of an MLX directory, likewise.
  static Result<std::unique_ptr<ModelFile>> from_mlx(const MlxFiles& files);

  // An MLX directory's, too, in these terms (mlx.hpp).
  const Gguf& gguf() const noexcept { return gguf_; }
  std::string format() const;  // "GGUF v3", "MLX"
  const ModelConfig& config() const noexcept { return config_; }
  // Before a device takes the model: sequences will be of at most so many positions (ModelConfig::serve).
  void serve(std::uint32_t context) { config_.serve(context); }
  const ModelWeights& weights() const noexcept { return weights_; }
  // Matrices lie in mappings of files: a device that has copied them may give their pages back.
  bool mapped() const noexcept { return !mappings_.empty(); }
  // The file's bytes that `at`, a byte of a tensor, lies among. Empty: made while reading (an MLX directory's
  // norms and biases, a scaled norm), with anything at all around it.
  std::span<const std::byte> storage_of(const std::byte* at) const noexcept;
  std::uint64_t parameter_count() const noexcept { return parameters_; }
  // What one token is computed with: without the experts that it is not routed to.
  std::uint64_t active_parameter_count() const noexcept;
  std::uint64_t weight_bytes() const noexcept { return weight_bytes_; }
  // What one token reads: of the embedding table only a row, unless it is the output too; of experts only
  // those that it is routed to.
  std::uint64_t token_weight_bytes() const noexcept;
  std::string_view main_quantization() const noexcept;  // "Q4_0": the type most bytes have

 private:
  ModelFile() = default;
  // These may throw bad_alloc.
  static Result<std::unique_ptr<ModelFile>> read_path(const std::filesystem::path& path,
                                                      std::string_view sha256);
  // first: what the first shard was parsed to, where it was.
  static Result<std::unique_ptr<ModelFile>> read_gguf(const std::vector<std::span<const std::byte>>& shards,
                                                      std::optional<Gguf> first = {});
  static Result<std::unique_ptr<ModelFile>> read_files(const MlxFiles& files);
  static Result<std::unique_ptr<ModelFile>> read_directory(const std::filesystem::path& path);
  Result<void> bind();

  std::vector<MappedFile> mappings_;
  std::vector<std::span<const std::byte>> storage_;  // the files' bytes, mapped or not
  Gguf gguf_;
  std::unique_ptr<const MlxStorage> mlx_;  // what gguf_ views of an MLX directory, besides the mappings
  ModelConfig config_;
  ModelWeights weights_;
  std::vector<float> output_norm_;  // in place of the file's, where logits are scaled
  std::uint64_t parameters_ = 0, weight_bytes_ = 0;
};

}  // namespace flyball::model
