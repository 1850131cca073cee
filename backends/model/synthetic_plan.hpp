// What a synthetic file holds: its header, where each tensor lies, and the values of any row of it by
// themselves (a counter-based generator, so that rows can be made in any order by any thread).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/model/family.hpp"
#include "backends/model/gguf_writer.hpp"
#include "backends/model/synthetic.hpp"
#include "backends/model/synthetic_vocab.hpp"
#include "backends/model/weight_roles.hpp"

namespace flyball::model {

class SyntheticPlan {
 public:
  // What a tensor does decides its scale: `reads` multiplies the normed stream, `adds` is added back to it.
  enum class Role : std::uint8_t {
    embedding,
    output,
    norm,
    output_norm,
    reads,
    adds,
    bias,
    output_bias,
    router,
    rope_factors,
    short_factors,
    long_factors,
    // Of models whose tied table has successors (synthetic_plan.cpp).
    leaning_table,
    carry_gate,
    carry_up,
    carry_down,
    attn_post_norm,
    ffn_post_norm,
    signed_norm,
  };
  struct Tensor {
    Role role;
    kernels::DType type;
    std::uint64_t rows, cols;  // of all experts
    std::uint64_t offset;      // in the file
  };

  explicit SyntheticPlan(const SyntheticSpec& spec);  // precondition: check(spec)

  const std::string& header() const noexcept { return header_; }
  const std::vector<Tensor>& tensors() const noexcept { return tensors_; }
  std::uint64_t file_bytes() const noexcept { return header_.size() + writer_.data_bytes(); }
  // out: [cols] of that tensor
  void fill_row(std::size_t tensor, std::uint64_t row, std::span<float> out) const noexcept;

 private:
  double embedding_scale() const noexcept;
  double layer_share() const noexcept;  // of what `adds` adds, before the stream is scaled
  std::uint64_t row_key(std::size_t tensor, std::uint64_t row) const noexcept;
  std::uint64_t coprime_step(std::uint64_t salt) const noexcept;
  void fill_output_row(std::size_t tensor, std::uint64_t token, std::span<float> out) const noexcept;
  void fill_leaning_row(std::size_t tensor, std::uint64_t token, std::span<float> out) const noexcept;
  void flip_signs(std::span<float> values) const noexcept;
  std::uint32_t shift() const noexcept { return spec_.dim / 8 * 2; }  // even, and back and forth differ
  void fill_rope_factors(std::span<float> out) const noexcept;
  void fill_longrope_factors(bool of_long, std::span<float> out) const noexcept;
  std::uint32_t rope_dim() const noexcept { return spec_.rope_dim != 0 ? spec_.rope_dim : head_dim_; }
  std::uint32_t original_context() const noexcept;  // of a file with RoPE scaling
  // Feed-forwards carry the stream on to where the output finds the successors: a table that is the output,
  // too, cannot lean on anything else. So it is where blocks are normed behind.
  bool carries() const noexcept { return shape_.post_norms; }
  Role role_of(WeightRole weight) const noexcept;
  void write_rope();
  void write_metadata();
  void add(std::string_view name, Role role, kernels::DType type, std::span<const std::uint64_t> dims);
  void add_vector(std::string_view name, Role role, std::uint64_t size);
  void add_weight(WeightRole weight, std::uint32_t layer);
  void add_tensors();

  SyntheticSpec spec_;
  const Family& family_;
  ModelConfig shape_;  // what decides the tensors; no more is set
  SyntheticVocab vocab_;
  std::uint32_t head_dim_ = 0;
  std::uint64_t first_step_ = 0, second_step_ = 0;
  GgufWriter writer_;
  std::vector<Tensor> tensors_;
  std::string header_;
};

}  // namespace flyball::model
