// What each instruction set's files put into the table. Called only where supported(isa): their code is
// compiled for that instruction set throughout.
#pragma once

#include "kernels/cpu/kernels.hpp"

namespace flyball::kernels::cpu {

// matmul_<isa>.cpp: pack, prepare_activations, matmul and their sizes.
void add_matmul_scalar(Kernels& k) noexcept;
#if defined(__x86_64__)
void add_matmul_avx2(Kernels& k) noexcept;
void add_matmul_avx512(Kernels& k) noexcept;
#elif defined(__aarch64__)
void add_matmul_neon(Kernels& k) noexcept;
#endif

// embed.cpp: decodes one row, the same for all.
void embed(DType type, const SourceRows& row, std::uint32_t cols, float scale, float* out) noexcept;

// moe_route.cpp: a few hundred values a token, the same for all.
void moe_route(const float* logits, std::uint32_t n_experts, std::uint32_t n_used, std::uint32_t* experts,
               float* weights) noexcept;

// ops_<isa>.cpp: everything else.
void add_ops_scalar(Kernels& k) noexcept;
#if defined(__x86_64__)
void add_ops_avx2(Kernels& k) noexcept;
void add_ops_avx512(Kernels& k) noexcept;
#elif defined(__aarch64__)
void add_ops_neon(Kernels& k) noexcept;
#endif

}  // namespace flyball::kernels::cpu
