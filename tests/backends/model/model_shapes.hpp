// Shapes of small models of every family that the decoder knows.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace flyball::test {

inline constexpr std::string_view kLlama = "dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320";
// Fused matrices, a window, part of a head rotated, by LongRoPE.
inline constexpr std::string_view kPhi3 =
    "arch=phi3,dim=64,layers=2,heads=2,kv_heads=1,ffn=96,vocab=320,context=1024,window=9,rope_dim=24,rope="
    "longrope";
// Every other layer has a window; heads of another size, scores and logits with caps, norms behind.
inline constexpr std::string_view kGemma2 =
    "arch=gemma2,dim=64,layers=2,heads=4,kv_heads=2,head_dim=32,ffn=96,vocab=320,window=9";
// Of six layers one sees everything, and rotates by another base; heads are normed.
inline constexpr std::string_view kGemma3 =
    "arch=gemma3,dim=64,layers=6,heads=2,kv_heads=1,head_dim=32,ffn=96,vocab=320,window=9";
// Biases of attention, its output's as well.
inline constexpr std::string_view kBiasedLlama =
    "arch=llama,dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320,biases=1";
// A bias of attention's output alone, and biases of q, k and v alone.
inline constexpr std::string_view kOutputBias =
    "arch=llama,dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320,biases=2";
inline constexpr std::string_view kInputBiases =
    "arch=llama,dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320,biases=3";
// Scales of the embeddings, the blocks, the queries and the logits.
inline constexpr std::string_view kGranite =
    "arch=granite,dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320,biases=1";
// Queries that grow every 20 positions.
inline constexpr std::string_view kMistral3 =
    "arch=mistral3,dim=64,layers=2,heads=4,kv_heads=2,head_dim=32,ffn=96,vocab=320,context=80,rope=yarn";
// The last of the four layers does not rotate.
inline constexpr std::string_view kSmolLm3 =
    "arch=smollm3,dim=64,layers=4,heads=4,kv_heads=2,ffn=96,vocab=320";
// Every family, and what is its own: biases; heads of another size, normed; experts.
inline constexpr std::string_view kFamilies[] = {
    kLlama,
    kPhi3,
    kGemma2,
    kGemma3,
    "arch=qwen2,dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320",
    "arch=qwen3,dim=64,layers=2,heads=4,kv_heads=2,head_dim=32,ffn=96,vocab=320",
    "dim=64,layers=2,heads=4,kv_heads=2,vocab=320,experts=4,experts_used=2,expert_ffn=64",
    "arch=qwen3moe,dim=64,layers=2,heads=4,kv_heads=2,head_dim=32,vocab=320,experts=8,experts_used=3,expert_"
    "ffn=32",
    kBiasedLlama,
    kOutputBias,
    kInputBiases,
    kGranite,
    kMistral3,
    kSmolLm3};
inline constexpr std::string_view kMixture = kFamilies[7];
// Those that have a window; heads of 32 values, as q8_0 KV needs.
inline constexpr std::string_view kWindowed[] = {kPhi3, kGemma2, kGemma3};
// A window of several splits of decode attention.
inline constexpr std::string_view kWideWindow =
    "arch=phi3,dim=64,layers=2,heads=2,kv_heads=1,ffn=96,vocab=320,context=1024,window=600";

// "qwen3moe_experts": a shape's architecture, and what it has that not all models of it have.
inline std::string family_name(std::string_view shape) {
  std::string name = shape.starts_with("arch=") ? std::string(shape.substr(5, shape.find(',') - 5)) : "llama";
  constexpr std::pair<std::string_view, std::string_view> kFeatures[] = {{"experts=", "experts"},
                                                                         {"biases=1", "biases"},
                                                                         {"biases=2", "output_bias"},
                                                                         {"biases=3", "input_biases"}};
  for (const auto& [key, feature] : kFeatures)
    if (shape.find(key) != std::string_view::npos) name.append("_").append(feature);
  return name;
}

}  // namespace flyball::test
