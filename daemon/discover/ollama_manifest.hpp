// Manifests of Ollama's store (github.com/ollama/ollama, docs and types/model): which blob is which part of a
// model. Pure; the text is anybody's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/error.hpp"

namespace flyball::discover {

struct OllamaManifest {
  struct Blob {
    std::string digest;  // 64 hex digits, lower case
    std::uint64_t bytes = 0;
  };
  std::vector<Blob> models;        // GGUF; a usable model has one
  bool adapter = false;            // a LoRA to be added to the weights
  bool projector = false;          // the part that reads images
  bool own_template = false;       // a chat template in Ollama's own language
  std::size_t single_tensors = 0;  // layers that are a tensor each, as Ollama's MLX engine has them
};
inline constexpr std::size_t kMaxManifestBytes = 1 << 20;

// invalid_json and its kin; model_invalid: no manifest, or a digest that is none.
Result<OllamaManifest> read_ollama_manifest(std::string_view text);

// The name by which a person calls the model of manifest HOST/NAMESPACE/NAME/TAG: "qwen3:8b" for
// registry.ollama.ai/library/qwen3/8b, "me/qwen3:8b", "hf.co/org/repo:Q8_0".
std::string ollama_name(std::string_view host, std::string_view space, std::string_view name,
                        std::string_view tag);

}  // namespace flyball::discover
