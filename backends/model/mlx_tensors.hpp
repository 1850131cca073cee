// Tensors of an MLX directory by GGUF's names. A module's matrix is one tensor, or three where it is
// quantized: weight (U32 words of codes), scales and biases.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "backends/model/gguf.hpp"
#include "backends/model/mlx_config.hpp"
#include "backends/model/safetensors.hpp"

namespace flyball::model {

// What the tensors' views need besides the files.
struct MlxTensorStorage {
  std::deque<std::string> names;
  std::deque<std::vector<float>> vectors;  // norms and biases, widened to F32
};

// Views into the tensors' data and into storage. model_invalid names the tensor.
Result<std::vector<GgufTensor>> translate_mlx_tensors(const std::vector<SafeTensor>& tensors,
                                                      const MlxConfig& config, MlxTensorStorage& storage);

// "model.layers.3.self_attn.q_proj.weight" of "blk.3.attn_q.weight"; "" of names that are none of ours.
std::string mlx_tensor_name(std::string_view gguf_name);

}  // namespace flyball::model
