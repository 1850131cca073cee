#include "backends/model/family.hpp"

#include <algorithm>
#include <iterator>

namespace flyball::model {
namespace {

constexpr Family kFamilies[] = {
    // Mixtral, too.
    {.name = "llama",
     .rope_style = kernels::RopeStyle::interleaved,
     .experts = InFiles::some,
     .qkv_bias = InFiles::some,
     .o_bias = InFiles::some},
    {.name = "qwen2", .qkv_bias = InFiles::all},
    {.name = "qwen3", .qk_norm = true},
    {.name = "qwen3moe", .experts = InFiles::all, .qk_norm = true},
    // Every layer has the window that a file names, as in transformers' modeling_phi3. llama.cpp leaves the
    // window out: texts longer than the window differ from its.
    {.name = "phi3", .fused_matrices = true, .windows = FamilyWindows{}},
    {.name = "gemma2",
     .activation = kernels::Activation::gelu,
     .post_norms = true,
     .root_embedding_scale = true,
     .even_share_layers = 46,
     .attention_cap = 50.0F,
     .logit_cap = 30.0F,
     .windows = FamilyWindows{.window = 4096, .global_every = 2}},
    // llama.cpp's model saver writes attn_logit_softcapping into files of gemma3, which has no such cap.
    {.name = "gemma3",
     .activation = kernels::Activation::gelu,
     .qk_norm = true,
     .post_norms = true,
     .root_embedding_scale = true,
     .even_share_layers = 62,
     .logit_cap = 0.0F,
     .windows = FamilyWindows{.global_every = 6, .rope_base = 10'000.0F}},
    {.name = "granite",
     .rope_style = kernels::RopeStyle::interleaved,
     .qkv_bias = InFiles::some,
     .o_bias = InFiles::some,
     .file_scales = true,
     .rope_switch = true},
    {.name = "mistral3",
     .rope_style = kernels::RopeStyle::interleaved,
     .query_temperature = true,
     .yarn_log_multiplier = true},
    {.name = "smollm3", .rope_style = kernels::RopeStyle::interleaved, .still_every = 4},
};

// A residual scale is taken out of the stream (ModelConfig::stream_eps), and norms behind would see it there;
// their bias would have to be added before them.
static_assert(std::ranges::none_of(kFamilies, [](const Family& f) {
  return f.post_norms && (f.file_scales || f.o_bias != InFiles::none);
}));

}  // namespace

std::span<const Family> families() noexcept {
  return kFamilies;
}

const Family* find_family(std::string_view name) noexcept {
  const auto* it = std::ranges::find(kFamilies, name, &Family::name);
  return it == std::end(kFamilies) ? nullptr : it;
}

std::string family_names() {
  std::string names;
  for (const Family& f : kFamilies) names += (names.empty() ? "" : ", ") + std::string(f.name);
  return names;
}

}  // namespace flyball::model
