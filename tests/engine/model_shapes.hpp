// Shapes of small models of every family that the decoder knows.
#pragma once

#include <string_view>

namespace flyball::test {

inline constexpr std::string_view kLlama = "dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320";
// Every family, and what is its own: biases; heads of another size, normed; experts.
inline constexpr std::string_view kFamilies[] = {
    kLlama, "arch=qwen2,dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320",
    "arch=qwen3,dim=64,layers=2,heads=4,kv_heads=2,head_dim=32,ffn=96,vocab=320",
    "dim=64,layers=2,heads=4,kv_heads=2,vocab=320,experts=4,experts_used=2,expert_ffn=64",
    "arch=qwen3moe,dim=64,layers=2,heads=4,kv_heads=2,head_dim=32,vocab=320,experts=8,experts_used=3,expert_"
    "ffn=32"};
inline constexpr std::string_view kMixture = kFamilies[4];

}  // namespace flyball::test
