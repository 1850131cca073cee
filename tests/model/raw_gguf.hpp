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
// no tokenizer. `edit` may change the metadata or the tensors before they are written.
struct SmallModel {
  std::uint32_t layers = 1, dim = 4, heads = 2, kv_heads = 1, ffn = 6, context = 16, vocab = 5;
  std::string architecture = "llama";
  bool output = true;
  std::string skip;         // a tensor left out
  std::string wrong_shape;  // a tensor with one row too many
  std::string extra;        // a tensor too many
  kernels::DType norm_type = kernels::DType::f32;

  template <class Edit>
  std::vector<std::byte> bytes(Edit&& edit) const {
    GgufWriter out;
    out.set_string("general.architecture", architecture);
    out.set_u32("llama.block_count", layers);
    out.set_u32("llama.context_length", context);
    out.set_u32("llama.embedding_length", dim);
    out.set_u32("llama.feed_forward_length", ffn);
    out.set_u32("llama.attention.head_count", heads);
    out.set_u32("llama.attention.head_count_kv", kv_heads);
    edit(out);
    const auto q_rows =
        dim / std::max(1U, heads) * std::max(1U, heads);  // a count of 0 is for the metadata alone
    const auto kv_rows = dim / std::max(1U, heads) * std::max(1U, kv_heads);
    add(out, "token_embd.weight", vocab, dim);
    for (std::uint32_t i = 0; i < layers; ++i) {
      const auto prefix = "blk." + std::to_string(i) + ".";
      add(out, prefix + "attn_norm.weight", 1, dim, norm_type);
      add(out, prefix + "attn_q.weight", q_rows, dim);
      add(out, prefix + "attn_k.weight", kv_rows, dim);
      add(out, prefix + "attn_v.weight", kv_rows, dim);
      add(out, prefix + "attn_output.weight", dim, q_rows);
      add(out, prefix + "ffn_norm.weight", 1, dim);
      add(out, prefix + "ffn_gate.weight", ffn, dim);
      add(out, prefix + "ffn_up.weight", ffn, dim);
      add(out, prefix + "ffn_down.weight", dim, ffn);
    }
    add(out, "output_norm.weight", 1, dim);
    if (output) add(out, "output.weight", vocab, dim);
    if (!extra.empty()) add(out, extra, 1, dim);
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
           kernels::DType type = kernels::DType::f32) const {
    if (name == skip) return;
    const std::uint64_t dims[] = {cols, name == wrong_shape ? rows + 1 : rows};
    const bool vector = name.find("norm") != std::string::npos && name != wrong_shape;
    out.add_tensor(name, type, std::span(dims).first(vector ? 1 : 2));
  }
};

}  // namespace flyball::model::test
