// config.json of an MLX directory: the shape in GGUF's keys, and what GGUF has no key for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/model/gguf_writer.hpp"
#include "backends/model/mlx_json.hpp"
#include "kernels/formats/dtype.hpp"
#include "kernels/formats/rope_style.hpp"

namespace flyball::model {

struct MlxConfig {
  std::uint64_t vocab_size = 0;     // 1 to kMaxVocab
  std::vector<float> rope_factors;  // of the scaling "llama3": what divides each frequency; else empty
  kernels::RopeStyle rope_style = kernels::RopeStyle::half;
  std::optional<bool> tied;                 // absent: tied where there is no lm_head
  std::optional<kernels::DType> quantized;  // how matrices that have scales are quantized
  // By module ("model.layers.0.mlp.down_proj"): otherwise, or (nullopt) not at all.
  std::map<std::string, std::optional<kernels::DType>, std::less<>> quantized_otherwise;
};

Result<MlxConfig> translate_mlx_config(const MlxObject& config, GgufWriter& out);

// The field that a key of ours was written from ("hidden_size" of "llama.embedding_length"); "" for others.
std::string_view mlx_field_of(std::string_view gguf_key);

}  // namespace flyball::model
