// A small MLX directory in memory, for tests to spoil: one layer, quantized to 4 bits but for its norms.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "backends/model/mlx.hpp"
#include "backends/model/model_file.hpp"

namespace flyball::test {

// A safetensors file: so many bytes of header as it says, then the tensors, from an odd byte on, or from a
// multiple of 8.
inline std::string safetensors(const nlohmann::json& header, const std::string& data, bool aligned = false) {
  std::string text = header.dump();
  while (text.size() % 8 != (aligned ? 0 : 1)) text += ' ';
  const std::uint64_t length = text.size();
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + text + data;
}

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

struct MlxTensor {
  std::string name, dtype;
  std::vector<std::uint64_t> shape;
};

struct MlxTestDirectory {
  static constexpr int kDim = 64, kHeads = 2, kFfn = 96, kVocab = 264;
  nlohmann::json config, tokenizer, tokenizer_config;
  std::string generation_config, chat_template;
  std::vector<MlxTensor> tensors;

  MlxTestDirectory() {
    config = {{"model_type", "llama"},          {"hidden_size", kDim},
              {"intermediate_size", kFfn},      {"num_hidden_layers", 1},
              {"num_attention_heads", kHeads},  {"num_key_value_heads", 1},
              {"max_position_embeddings", 128}, {"rms_norm_eps", 1e-6},
              {"rope_theta", 10000.0},          {"vocab_size", kVocab},
              {"tie_word_embeddings", false},   {"quantization", {{"group_size", 32}, {"bits", 4}}}};
    tokenizer_config = {
        {"bos_token", "<s>"}, {"eos_token", {{"content", "</s>"}}}, {"chat_template", "{{ bos_token }}"}};
    tokenizer = {{"added_tokens", nlohmann::json::array()},
                 {"normalizer",
                  {{"type", "Sequence"},
                   {"normalizers",
                    {{{"type", "Prepend"}, {"prepend", "▁"}},
                     {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
                 {"pre_tokenizer", nullptr},
                 {"post_processor",
                  {{"type", "TemplateProcessing"}, {"single", {{{"SpecialToken", {{"id", "<s>"}}}}}}}},
                 {"model", {{"type", "BPE"}, {"byte_fallback", true}, {"unk_token", "<unk>"}}}};
    auto& vocab = tokenizer["model"]["vocab"];
    for (const char* text : {"<unk>", "<s>", "</s>"}) {
      tokenizer["added_tokens"].push_back({{"id", vocab.size()}, {"content", text}, {"special", true}});
      const auto id = vocab.size();
      vocab[text] = id;
    }
    for (int byte = 0; byte < 256; ++byte) {
      char text[8];
      std::snprintf(text, sizeof text, "<0x%02X>", byte);
      const auto id = vocab.size();
      vocab[text] = id;
    }
    for (const char* text : {"▁", "a", "b", "ab"}) {
      const auto id = vocab.size();
      vocab[text] = id;
    }
    tokenizer["model"]["merges"] = {"a b"};

    add_matrix("model.embed_tokens", kVocab, kDim);
    add_matrix("lm_head", kVocab, kDim);
    tensors.push_back({"model.norm.weight", "BF16", {kDim}});
    const std::string layer = "model.layers.0.";
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
      tensors.push_back({layer + norm + ".weight", "F16", {kDim}});
    add_matrix(layer + "self_attn.q_proj", kDim, kDim);
    add_matrix(layer + "self_attn.k_proj", kDim / kHeads, kDim);
    add_matrix(layer + "self_attn.v_proj", kDim / kHeads, kDim);
    add_matrix(layer + "self_attn.o_proj", kDim, kDim);
    add_matrix(layer + "mlp.gate_proj", kFfn, kDim);
    add_matrix(layer + "mlp.up_proj", kFfn, kDim);
    add_matrix(layer + "mlp.down_proj", kDim, kFfn);
  }

  void add_matrix(const std::string& module, std::uint64_t rows, std::uint64_t cols) {
    tensors.push_back({module + ".weight", "U32", {rows, cols / 8}});
    tensors.push_back({module + ".scales", "F16", {rows, cols / 32}});
    tensors.push_back({module + ".biases", "F16", {rows, cols / 32}});
  }
  MlxTensor& tensor(const std::string& name) {
    for (MlxTensor& t : tensors)
      if (t.name == name) return t;
    std::abort();
  }
  void remove(const std::string& name) {
    std::erase_if(tensors, [&](const MlxTensor& t) { return t.name == name; });
  }

  // Values that differ, none of them far from 1.
  void make_real() { is_real = true; }
  // The same, all of them F16.
  void make_float() {
    make_real();
    config.erase("quantization");
    std::erase_if(tensors, [](const MlxTensor& t) { return t.name.ends_with("s"); });
    for (MlxTensor& t : tensors) {
      if (t.dtype == "U32") t.shape.back() *= 8;
      t.dtype = "F16";
    }
  }
  bool is_real = false;
  bool aligned = false;  // tensors lie at multiples of 8, as some writers have it; MLX's own pads nothing

  // One of n files.
  std::string shard(std::size_t part = 0, std::size_t n = 1) const {
    auto header = nlohmann::json::object();
    std::uint64_t at = 0;
    std::string data;
    std::uint32_t state = 1;
    const auto from = part * tensors.size() / n, to = (part + 1) * tensors.size() / n;
    for (const MlxTensor& t : std::span(tensors).subspan(from, to - from)) {
      const std::uint64_t size =
          std::accumulate(t.shape.begin(), t.shape.end(), std::uint64_t{1}, std::multiplies()) *
          (t.dtype == "U32" || t.dtype == "F32" || t.dtype == "I32" ? 4 : 2);
      header[t.name] = {{"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {at, at + size}}};
      at += size;
      data.resize(at, '\x11');
      for (std::size_t i = at - size; is_real && i < at; i += 2) {
        state = state * 1'664'525U + 1'013'904'223U;  // Numerical Recipes
        data[i] = static_cast<char>(state >> 8);
        const std::uint32_t bits = state >> 16;
        if (t.dtype == "U32")  // any bits are codes
          data[i + 1] = static_cast<char>(bits);
        else if (t.dtype == "BF16")  // 1 to 2
          data[i] = static_cast<char>(data[i] | 0x80), data[i + 1] = 0x3F;
        else  // 1/512 to 1/128 of scales, else 1/32 to 1/8; either sign
          data[i + 1] =
              static_cast<char>((t.name.ends_with(".scales") ? 0x18 : 0x28) + bits % 8 + (bits >> 8 & 0x80));
      }
    }
    return safetensors(header, data, aligned);
  }
};

// The texts behind MlxFiles.
struct MlxTexts {
  std::string config, tokenizer, tokenizer_config, generation_config, chat_template;
  std::string index;
  std::vector<std::string> shards;

  explicit MlxTexts(const MlxTestDirectory& d, std::size_t n_shards = 1)
      : config(d.config.dump()),
        tokenizer(d.tokenizer.dump()),
        tokenizer_config(d.tokenizer_config.dump()),
        generation_config(d.generation_config),
        chat_template(d.chat_template) {
    for (std::size_t i = 0; i < n_shards; ++i) shards.push_back(d.shard(i, n_shards));
    if (n_shards == 1) return;
    auto map = nlohmann::json::object();
    for (std::size_t i = 0; i < n_shards; ++i) map[std::to_string(i)] = shard_name(i);
    index = nlohmann::json{{"weight_map", map}}.dump();
  }
  std::string shard_name(std::size_t i) const {
    return shards.size() == 1 ? "model.safetensors" : "model-" + std::to_string(i) + ".safetensors";
  }
  model::MlxFiles files() const {
    model::MlxFiles out{config, generation_config, tokenizer, tokenizer_config, chat_template, {}};
    for (std::size_t i = 0; i < shards.size(); ++i)
      out.shards.push_back({shard_name(i), bytes_of(shards[i])});
    return out;
  }
  void write(const std::filesystem::path& directory) const {
    const auto put = [&](const std::string& name, const std::string& text) {
      std::ofstream(directory / name, std::ios::binary) << text;
    };
    put("config.json", config);
    put("tokenizer.json", tokenizer);
    for (std::size_t i = 0; i < shards.size(); ++i) put(shard_name(i), shards[i]);
    if (!index.empty()) put("model.safetensors.index.json", index);
  }
};

// A directory of real values, opened: every tensor begins at an odd byte of its mapping, or at a multiple
// of 8.
inline Result<std::unique_ptr<model::ModelFile>> open_mlx(const std::filesystem::path& directory,
                                                          bool quantized, bool aligned = false) {
  MlxTestDirectory d;
  quantized ? d.make_real() : d.make_float();
  d.aligned = aligned;
  MlxTexts(d).write(directory);
  return model::ModelFile::open(directory);
}

}  // namespace flyball::test
