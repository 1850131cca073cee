// A model file opened and understood: the mapping, the directory, the shape, and each weight by its role.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "backends/model/gguf.hpp"
#include "backends/model/mapped_file.hpp"
#include "backends/model/model_config.hpp"

namespace flyball::model {

// One weight in the file's own layout: [experts, rows, cols], row-major, cols contiguous. A norm or a bias
// has one row.
struct Weight {
  kernels::DType type = kernels::DType::f32;
  std::uint32_t rows = 0, cols = 0;
  const std::byte* data = nullptr;  // null: this model has none of this role
  std::uint32_t experts = 1;        // matrices one after the other
  std::uint64_t matrix_bytes() const noexcept { return rows * kernels::row_bytes(type, cols); }
};

struct LayerWeights {
  Weight attn_norm, q, k, v, o, ffn_norm;
  Weight gate, up, down;                               // dense
  Weight q_bias, k_bias, v_bias;                       // qkv_bias
  Weight q_norm, k_norm;                               // qk_norm: [head_dim]
  Weight router, expert_gate, expert_up, expert_down;  // experts
};

struct ModelWeights {
  Weight token_embedding;  // [vocab_size, dim]
  Weight output_norm;
  Weight output;  // [vocab_size, dim]; the embedding table where tied
  std::vector<LayerWeights> layers;
};

class ModelFile {
 public:
  // MappedFile::open's errors; model_invalid (missing or unknown tensors and wrong shapes are named; norms
  // and biases must be F32); insufficient_memory.
  static Result<std::unique_ptr<ModelFile>> open(const std::filesystem::path& path);
  // Over bytes that outlive the result and begin at a multiple of 8 (the embedded demo model, tests,
  // fuzzers).
  static Result<std::unique_ptr<ModelFile>> from_bytes(std::span<const std::byte> bytes);

  const Gguf& gguf() const noexcept { return gguf_; }
  const ModelConfig& config() const noexcept { return config_; }
  const ModelWeights& weights() const noexcept { return weights_; }
  // The file mapping, empty after from_bytes(): a device that has copied weights may give its pages back.
  std::span<const std::byte> mapping() const noexcept { return mapping_.bytes(); }
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
  static Result<std::unique_ptr<ModelFile>> bind(std::span<const std::byte> bytes);  // may throw bad_alloc
  MappedFile mapping_;
  Gguf gguf_;
  ModelConfig config_;
  ModelWeights weights_;
  std::uint64_t parameters_ = 0, weight_bytes_ = 0;
};

}  // namespace flyball::model
