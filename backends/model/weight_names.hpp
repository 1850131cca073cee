// The names tensors have in a GGUF file of the families that model_config knows, by role.
// Source: gguf-py's tensor mapping for MODEL_ARCH.LLAMA, QWEN2, QWEN3, QWEN3MOE, PHI3, GEMMA2 and GEMMA3.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flyball::model::weight_names {

inline constexpr std::string_view kTokenEmbedding = "token_embd.weight";
inline constexpr std::string_view kOutputNorm = "output_norm.weight";
inline constexpr std::string_view kOutput = "output.weight";  // absent where embeddings are tied
inline constexpr std::string_view kRopeFrequencies = "rope_freqs.weight";

inline constexpr std::string_view kRopeFactorsShort = "rope_factors_short.weight";
inline constexpr std::string_view kRopeFactorsLong = "rope_factors_long.weight";

inline constexpr std::string_view kAttnNorm = "attn_norm";
inline constexpr std::string_view kQ = "attn_q";
inline constexpr std::string_view kK = "attn_k";
inline constexpr std::string_view kV = "attn_v";
inline constexpr std::string_view kQkv = "attn_qkv";  // rows of q, of k, of v; phi3
inline constexpr std::string_view kO = "attn_output";
inline constexpr std::string_view kFfnNorm = "ffn_norm";
inline constexpr std::string_view kGate = "ffn_gate";
inline constexpr std::string_view kUp = "ffn_up";  // phi3: rows of gate, of up
inline constexpr std::string_view kDown = "ffn_down";
inline constexpr std::string_view kAttnPostNorm = "post_attention_norm";
inline constexpr std::string_view kFfnPostNorm = "post_ffw_norm";
inline constexpr std::string_view kQNorm = "attn_q_norm";
inline constexpr std::string_view kKNorm = "attn_k_norm";
inline constexpr std::string_view kRouter = "ffn_gate_inp";
inline constexpr std::string_view kExpertGate = "ffn_gate_exps";
inline constexpr std::string_view kExpertUp = "ffn_up_exps";
inline constexpr std::string_view kExpertDown = "ffn_down_exps";

// "blk.3.attn_q.weight"
inline std::string layer(std::uint32_t index, std::string_view role, std::string_view what = "weight") {
  return "blk." + std::to_string(index) + "." + std::string(role) + "." + std::string(what);
}
inline std::string layer_bias(std::uint32_t index, std::string_view role) {
  return layer(index, role, "bias");
}

}  // namespace flyball::model::weight_names
