// Models in MLX's own format: a directory of config.json, safetensors files, tokenizer.json and their like,
// as mlx-lm writes it. It is read by translating it into GGUF's terms (keys, roles, vocabulary), so that one
// reading of a model serves both. Sources: github.com/ml-explore/mlx-lm (utils.py, models/),
// huggingface.co/docs/tokenizers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/model/gguf.hpp"
#include "backends/model/mlx_tensors.hpp"
#include "backends/model/model_config.hpp"
#include "config/error.hpp"

namespace flyball::model {

// A directory's files; "" where one that may be absent is.
struct MlxFiles {
  std::string_view config;             // config.json
  std::string_view generation_config;  // generation_config.json, may be absent
  std::string_view tokenizer;          // tokenizer.json
  std::string_view tokenizer_config;   // tokenizer_config.json, may be absent
  std::string_view chat_template;      // chat_template.jinja, may be absent
  struct Shard {
    std::string name;
    std::span<const std::byte> bytes;
  };
  std::vector<Shard> shards;  // *.safetensors
};

inline constexpr std::size_t kMaxMlxShards = 1024;

// The safetensors files that model.safetensors.index.json names. model_invalid, also for a name that leaves
// the directory.
Result<std::vector<std::string>> read_mlx_index(std::string_view json);

// What a translation views, besides the shards.
struct MlxStorage {
  std::string metadata;
  MlxTensorStorage tensors;
};

struct MlxModel {
  Gguf gguf;           // views into the shards and the storage
  ModelConfig config;  // rows of q and k as they were trained; GGUF's LLaMA files have them permuted
  std::unique_ptr<const MlxStorage> storage;
};

// model_invalid: the file, the field and the value are named. model_unsupported: a quantization, a scaling of
// RoPE, a tokenizer or an attention that this build does not know. May throw bad_alloc.
Result<MlxModel> read_mlx(const MlxFiles& files);

// Adds to what is said in GGUF's names (keys, tensors) those of the directory.
Error in_mlx_terms(Error error);

}  // namespace flyball::model
