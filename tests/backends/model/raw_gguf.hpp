// Bytes of a GGUF file written by hand, so that tests can write wrong ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "backends/model/gguf.hpp"
#include "backends/model/gguf_writer.hpp"

namespace flyball::model::test {

class Raw {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> Raw& put(T value) {
    const auto* at = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), at, at + sizeof value);
    return *this;
  }
  Raw& text(std::string_view value) {
    put(std::uint64_t{value.size()});
    const auto* at = reinterpret_cast<const std::byte*>(value.data());
    bytes_.insert(bytes_.end(), at, at + value.size());
    return *this;
  }
  Raw& header(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
    for (const char c : std::string_view("GGUF")) put(c);
    return put(version).put(tensors).put(keys);
  }
  Raw& key(std::string_view name, GgufType type) { return text(name).put(static_cast<std::uint32_t>(type)); }
  Raw& tensor(std::string_view name, std::vector<std::uint64_t> dims, std::uint32_t type,
              std::uint64_t offset) {
    text(name).put(static_cast<std::uint32_t>(dims.size()));
    for (const auto dim : dims) put(dim);
    return put(type).put(offset);
  }
  Raw& pad(std::size_t multiple) {
    while (bytes_.size() % multiple != 0) put(char{0});
    return *this;
  }
  Raw& zeros(std::size_t n) {
    bytes_.resize(bytes_.size() + n);
    return *this;
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// The smallest valid model: dim 4, 1 layer, 2 heads over 1 KV head, ffn 6, vocab 5, everything F32 and 0.5,
// no tokenizer; of another architecture, or with experts of feed-forward 6, what those have besides. `edit`
// may change the metadata or the tensors before they are written.
struct SmallModel {
  std::uint32_t layers = 1, dim = 4, heads = 2, kv_heads = 1, ffn = 6, context = 16, vocab = 5;
  std::string architecture = "llama";
  bool output = true;
  std::string skip;           // a tensor left out
  std::string wrong_shape;    // a tensor with one row too many
  std::string wrong_experts;  // a tensor of one expert too many
  std::string extra;          // a tensor too many
  kernels::DType norm_type = kernels::DType::f32, bias_type = kernels::DType::f32;
  std::uint32_t experts = 0, experts_used = 1;
  std::uint64_t extra_rows = 1;
  bool epsilon = true;  // of the norms; false: the key is missing

  template <class Edit>
  std::vector<std::byte> bytes(Edit&& edit) const {
    GgufWriter out;
    out.set_string("general.architecture", architecture);
    out.set_u32(architecture + ".block_count", layers);
    out.set_u32(architecture + ".context_length", context);
    out.set_u32(architecture + ".embedding_length", dim);
    out.set_u32(architecture + ".feed_forward_length", ffn);
    out.set_u32(architecture + ".attention.head_count", heads);
    out.set_u32(architecture + ".attention.head_count_kv", kv_heads);
    if (epsilon) out.set_f32(architecture + ".attention.layer_norm_rms_epsilon", 1e-5F);
    if (experts > 0) {
      out.set_u32(architecture + ".expert_count", experts);
      out.set_u32(architecture + ".expert_used_count", experts_used);
    }
    edit(out);
    const auto q_rows =
        dim / std::max(1U, heads) * std::max(1U, heads);  // a count of 0 is for the metadata alone
    const auto kv_rows = dim / std::max(1U, heads) * std::max(1U, kv_heads);
    add(out, "token_embd.weight", vocab, dim);
    for (std::uint32_t i = 0; i < layers; ++i) {
      const auto prefix = "blk." + std::to_string(i) + ".";
      add(out, prefix + "attn_norm.weight", 1, dim, norm_type);
      if (architecture == "phi3") {
        add(out, prefix + "attn_qkv.weight", q_rows + 2 * kv_rows, dim);
      } else {
        add(out, prefix + "attn_q.weight", q_rows, dim);
        add(out, prefix + "attn_k.weight", kv_rows, dim);
        add(out, prefix + "attn_v.weight", kv_rows, dim);
      }
      add(out, prefix + "attn_output.weight", dim, q_rows);
      add(out, prefix + "ffn_norm.weight", 1, dim);
      if (architecture == "qwen2") {
        add(out, prefix + "attn_q.bias", 1, q_rows, bias_type);
        add(out, prefix + "attn_k.bias", 1, kv_rows, bias_type);
        add(out, prefix + "attn_v.bias", 1, kv_rows, bias_type);
      }
      if (architecture.starts_with("gemma")) {
        add(out, prefix + "post_attention_norm.weight", 1, dim);
        add(out, prefix + "post_ffw_norm.weight", 1, dim);
      }
      if (architecture.starts_with("qwen3") || architecture == "gemma3") {
        add(out, prefix + "attn_q_norm.weight", 1, dim / heads);
        add(out, prefix + "attn_k_norm.weight", 1, dim / heads);
      }
      if (experts > 0) {
        add(out, prefix + "ffn_gate_inp.weight", experts, dim);
        add(out, prefix + "ffn_gate_exps.weight", ffn, dim, kernels::DType::f32, experts);
        add(out, prefix + "ffn_up_exps.weight", ffn, dim, kernels::DType::f32, experts);
        add(out, prefix + "ffn_down_exps.weight", dim, ffn, kernels::DType::f32, experts);
      } else {
        if (architecture != "phi3") add(out, prefix + "ffn_gate.weight", ffn, dim);
        add(out, prefix + "ffn_up.weight", architecture == "phi3" ? 2 * ffn : ffn, dim);
        add(out, prefix + "ffn_down.weight", dim, ffn);
      }
    }
    add(out, "output_norm.weight", 1, dim);
    if (output) add(out, "output.weight", vocab, dim);
    if (!extra.empty()) add(out, extra, extra_rows, dim);
    const auto header = out.header();
    std::vector<std::byte> file(header.size() + out.data_bytes());
    std::memcpy(file.data(), header.data(), header.size());
    for (std::size_t at = header.size(); at + sizeof(float) <= file.size(); at += sizeof(float)) {
      const float half = 0.5F;
      std::memcpy(file.data() + at, &half, sizeof half);
    }
    return file;
  }
  std::vector<std::byte> bytes() const {
    return bytes([](GgufWriter&) {});
  }

 private:
  void add(GgufWriter& out, const std::string& name, std::uint64_t rows, std::uint64_t cols,
           kernels::DType type = kernels::DType::f32, std::uint64_t n_experts = 1) const {
    if (name == skip) return;
    const std::uint64_t dims[] = {cols, name == wrong_shape ? rows + 1 : rows,
                                  name == wrong_experts ? n_experts + 1 : n_experts};
    const bool vector =
        (name.find("norm") != std::string::npos || name.ends_with("bias")) && name != wrong_shape;
    out.add_tensor(name, type, std::span(dims).first(vector ? 1 : dims[2] == 1 ? 2 : 3));
  }
};

}  // namespace flyball::model::test
