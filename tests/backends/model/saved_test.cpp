// Files as llama.cpp's model saver writes them: every key that it knows, for every family, with zeros where a
// feature is off. They read as the files that they were made of. The keys are those of
// llama_model_save_to_file as node-llama-cpp 3.22 ships it; tests/oracle/saved has that function write them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/model/family.hpp"
#include "backends/model/gguf_writer.hpp"
#include "tests/backends/model/run_model.hpp"

namespace flyball::model {
namespace {

constexpr const char* kZeroCounts[] = {"leading_dense_block_count",
                                       "expert_latent_length",
                                       "expert_shared_feed_forward_length",
                                       "expert_chunk_feed_forward_length",
                                       "expert_shared_count",
                                       "expert_group_count",
                                       "expert_group_used_count",
                                       "expert_gating_func",
                                       "experts_per_group",
                                       "moe_every_n_layers",
                                       "nextn_predict_layers",
                                       "n_deepstack_layers",
                                       "decoder_block_count",
                                       "rescale_every_n_layers",
                                       "time_mix_extra_dim",
                                       "time_decay_extra_dim",
                                       "hrm.layers_per_stack",
                                       "hrm.h_cycles",
                                       "hrm.l_cycles",
                                       "interleave_moe_layer_step",
                                       "attention.group_norm_groups",
                                       "attention.q_lora_rank",
                                       "attention.kv_lora_rank",
                                       "attention.decay_lora_rank",
                                       "attention.iclr_lora_rank",
                                       "attention.value_residual_mix_lora_rank",
                                       "attention.gate_lora_rank",
                                       "attention.relative_buckets_count",
                                       "attention.temperature_length",
                                       "attention.key_length_mla",
                                       "attention.value_length_mla",
                                       "attention.key_length_mla_swa",
                                       "attention.value_length_mla_swa",
                                       "attention.kv_lora_rank_swa",
                                       "attention.indexer.head_count",
                                       "attention.indexer.key_length",
                                       "attention.indexer.top_k",
                                       "attention.indexer.block_size",
                                       "attention.indexer.local_blocks",
                                       "attention.indexer.types",
                                       "attention.recurrent_layers",
                                       "attention.output_group_count",
                                       "attention.output_lora_rank",
                                       "attention.compress_ratios",
                                       "hyper_connection.count",
                                       "hyper_connection.sinkhorn_iterations",
                                       "hash_layer_count",
                                       "hyper_connection.low_rank",
                                       "ssm.inner_size",
                                       "ssm.conv_kernel",
                                       "ssm.state_size",
                                       "ssm.time_step_rank",
                                       "ssm.group_count",
                                       "kda.head_dim",
                                       "wkv.head_size",
                                       "posnet.embedding_length",
                                       "posnet.block_count",
                                       "convnext.embedding_length",
                                       "convnext.block_count",
                                       "shortconv.l_cache",
                                       "attn_res.block_size",
                                       "dense_2_feat_in",
                                       "dense_2_feat_out",
                                       "dense_3_feat_in",
                                       "dense_3_feat_out"};
constexpr const char* kZeroNumbers[] = {
    "expert_weights_scale",         "attention.max_alibi_bias",          "attention.clamp_kqv",
    "attention.layer_norm_epsilon", "attention.group_norm_epsilon",      "attention.output_scale",
    "attention.value_scale",        "attention.compress_rope_freq_base", "hyper_connection.epsilon",
    "hyper_connection.magnitude",   "activation.situ_linear_beta"};
constexpr const char* kFalse[] = {"use_parallel_residual", "expert_weights_norm", "swin_norm",
                                  "hrm.prefix_lm",         "ssm.dt_b_c_rms",      "kda.safe_gate"};
constexpr std::size_t kMostLayers = 512;  // of llama.cpp's arrays that are written whole

void write_saved_keys(GgufWriter& out, const ModelConfig& c) {
  const Family& family = *find_family(c.architecture);
  const RopeConfig& rope = c.ropes[0];
  const auto key = [&](const char* name) { return c.architecture + "." + name; };
  const auto u32 = [&](const char* name, std::uint32_t value) { out.set_u32(key(name), value); };
  const auto f32 = [&](const char* name, float value) { out.set_f32(key(name), value); };
  out.set_string("general.architecture", c.architecture);
  out.set_string("general.name", c.name);
  for (const char* name : kZeroCounts) u32(name, 0);
  for (const char* name : kZeroNumbers) f32(name, 0);
  for (const char* name : kFalse) out.set_bool(key(name), false);
  u32("vocab_size", c.vocab_size);
  u32("context_length", c.context_length);
  u32("embedding_length", c.dim);
  u32("block_count", c.n_layers);
  const bool mixtral = c.n_experts > 0 && family.experts == InFiles::some;
  u32("feed_forward_length", mixtral ? c.expert_ffn_dim : std::max(c.ffn_dim, 1U));
  u32("expert_feed_forward_length", mixtral ? 0 : c.expert_ffn_dim);
  u32("expert_count", c.n_experts);
  u32("expert_used_count", c.n_experts_used);
  const std::vector<float> of_layers(c.n_layers), of_most(kMostLayers);
  for (const char* name : {"swiglu_clamp_exp", "swiglu_clamp_shexp"}) out.set_f32s(key(name), of_layers);
  f32("expert_group_scale", 0.05F);
  out.set_i32s(key("deepstack_mapping"), std::vector<std::int32_t>(kMostLayers, -1));
  u32("pooling_type", ~0U);
  u32("decoder_start_token_id", ~0U);
  // Defaults of llama.cpp's, which only some families replace.
  f32("attn_logit_softcapping", family.attention_cap ? c.attention_cap : 50.0F);
  f32("router_logit_softcapping", 30.0F);
  f32("final_logit_softcapping", family.logit_cap ? c.logit_cap : 30.0F);
  f32("logit_scale", family.file_scales ? c.logit_scale : 0);
  f32("residual_scale", family.file_scales ? c.residual_scale : 0);
  f32("embedding_scale", family.file_scales ? c.embedding_scale : 0);
  f32("attention.scale", family.file_scales || family.even_share_layers != 0 ? c.query_scale : 0);
  u32("token_shift_count", 2);
  u32("attention.head_count", c.n_heads);
  u32("attention.head_count_kv", c.n_kv_heads);
  for (const char* name : {"attention.key_length", "attention.value_length", "attention.key_length_swa",
                           "attention.value_length_swa"})
    u32(name, c.head_dim);
  f32("attention.layer_norm_rms_epsilon", c.norm_eps);
  out.set_bool(key("attention.causal"), true);
  u32("attention.rope_pattern", 1);
  u32("attention.sliding_window", c.windowed() ? c.layer(0).window : 0);
  if (c.windowed()) {
    std::vector<std::int32_t> pattern;
    for (std::uint32_t i = 0; i < c.n_layers; ++i) pattern.push_back(c.layer(i).window != 0 ? 1 : 0);
    out.set_i32s(key("attention.sliding_window_pattern"), pattern);
  }
  f32("attention.temperature_scale", c.temperature_scale);
  u32("rope.dimension_count", rope.dim);
  u32("rope.dimension_count_swa", rope.dim);
  out.set_i32s(key("rope.dimension_sections"), std::vector<std::int32_t>(4));
  f32("rope.freq_base", rope.base);
  f32("rope.freq_base_swa", c.ropes.back().rotates ? c.ropes.back().base : rope.base);
  const bool yarn = rope.scaling == RopeScaling::yarn;
  out.set_string(key("rope.scaling.type"), yarn ? "yarn" : "linear");
  f32("rope.scaling.factor", yarn ? rope.factor : 0);
  f32("rope.scaling.attn_factor", 1.0F);
  u32("rope.scaling.original_context_length", rope.original_context);
  out.set_bool(key("rope.scaling.finetuned"), family.rope_switch);
  f32("rope.scaling.yarn_log_multiplier", yarn && family.yarn_log_multiplier ? 1.0F : 0);
  f32("rope.scaling.yarn_ext_factor", -1.0F);
  f32("rope.scaling.yarn_attn_factor", 1.0F);
  f32("rope.scaling.yarn_beta_fast", 32.0F);
  f32("rope.scaling.yarn_beta_slow", 1.0F);
  f32("kda.gate_lower_bound", -std::numeric_limits<float>::infinity());
  out.set_strings(key("classifier.output_labels"), {});
  f32("activation.situ_beta", 1.0F);
  for (const char* name : {"xielu.alpha_n", "xielu.alpha_p", "xielu.beta", "xielu.eps"})
    out.set_f32s(name, of_most);
}

TEST(SavedByLlama, ReadsAsTheFileThatWasSaved) {
  for (const char* keys :
       {"arch=llama", "arch=llama,biases=1", "experts=4,experts_used=2,expert_ffn=64", "arch=qwen2",
        "arch=qwen3,head_dim=32", "arch=qwen3moe,experts=4,experts_used=2,expert_ffn=64", "arch=phi3",
        "arch=gemma2,window=9", "arch=gemma3,layers=7,window=9", "arch=granite", "arch=mistral3,rope=yarn",
        "arch=smollm3,layers=4", "rope=yarn"}) {
    SCOPED_TRACE(keys);
    const auto m = flyball::test::synthetic_model(
        kernels::DType::f16, "dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320," + std::string(keys));
    GgufWriter out;
    write_saved_keys(out, m.file->config());
    for (const GgufTensor& tensor : m.file->gguf().tensors())
      out.add_tensor(tensor.name, tensor.type, {tensor.dims, tensor.dims + tensor.n_dims});
    const std::string header = out.header();
    std::vector<std::byte> bytes(header.size() + out.data_bytes());
    std::memcpy(bytes.data(), header.data(), header.size());
    for (std::size_t i = 0; i < m.file->gguf().tensors().size(); ++i) {
      const auto data = m.file->gguf().tensors()[i].data;
      std::memcpy(bytes.data() + header.size() + out.tensor_offset(i), data.data(), data.size());
    }
    const auto saved = ModelFile::from_bytes(bytes);
    ASSERT_TRUE(saved) << saved.error().message;
    EXPECT_TRUE((*saved)->config() == m.file->config());
    EXPECT_EQ((*saved)->weight_bytes(), m.file->weight_bytes());
  }
}

}  // namespace
}  // namespace flyball::model
