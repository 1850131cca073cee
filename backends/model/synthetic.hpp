// Synthetic GGUF files of the families that model_config reads: random weights at a given shape, for tests
// and benchmarks. The same spec gives the same bytes on every machine and at every thread count. Nothing is
// held but a few rows per thread.
//
// The weights are scaled so that a greedy continuation is worth comparing between engines: each token has one
// likely and one less likely successor (output rows lean towards the embedding of their predecessors),
// between which the layers decide now and then; control tokens are never chosen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/model/model_config.hpp"
#include "config/error.hpp"
#include "kernels/formats/dtype.hpp"

namespace flyball::model {

struct SyntheticSpec {
  std::string name = "tiny";  // goes into general.name
  std::uint32_t dim = 256, layers = 2, heads = 4, kv_heads = 2, ffn = 512, vocab = 512, context = 1024;
  std::uint32_t head_dim = 0;          // 0: dim / heads
  std::uint32_t rope_dim = 0;          // rotated values of a head; 0: all
  std::uint32_t window = 0;            // attention.sliding_window; 0: the file names none
  std::string architecture = "llama";  // as in ModelConfig
  // Biases of attention, in a family of which some files have them. 1: q, k, v and output; 2: output; 3: q,
  // k, v.
  std::uint32_t biases = 0;
  // A mixture where experts > 0 (llama: Mixtral): ffn is then not used.
  std::uint32_t experts = 0, experts_used = 0, expert_ffn = 0;
  float rope_base = 10'000.0F;
  RopeScaling rope = RopeScaling::none;
  bool tied = false;
  kernels::DType type = kernels::DType::q4_0;  // of every matrix; norms, biases and routers are F32
  std::uint64_t seed = 1;
  std::string chat_template = {};  // Jinja source; "": ChatML
  bool infill = false;             // the vocabulary has infill tokens
};

// "tiny", "small" or a published model's shape (synthetic_shape_names), or "dim=512,layers=4,...", also with
// a name first: "tiny,vocab=1000,arch=qwen3". invalid_value with param "shape" lists what it knows. Whether
// rows are whole blocks of the type is check()'s, once the type is known.
Result<SyntheticSpec> parse_synthetic_shape(std::string_view text);
std::string synthetic_shape_names();  // "tiny, small, ..."
std::string synthetic_shape_keys();   // "arch, rope, dim, ..."

// invalid_value naming the value, the limit and the option; K-quants and IQ4_XS need rows that are multiples
// of 256.
Result<void> check(const SyntheticSpec& spec);

// Where a file's bytes go. write_at is called from several threads, for ranges that do not overlap.
struct ByteSink {
  virtual ~ByteSink() = default;
  virtual Result<void> resize(std::uint64_t bytes) = 0;  // once, first
  virtual Result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
};

// Called with the bytes done and the file's size, from one thread at a time.
using SyntheticProgress = std::function<void(std::uint64_t, std::uint64_t)>;

// threads: 0 is one per core. Returns the file's size.
Result<std::uint64_t> write_synthetic(const SyntheticSpec& spec, ByteSink& sink, std::uint32_t threads = 0,
                                      const SyntheticProgress& progress = {});
// Through a ".part" file beside it that is renamed at the end, so that no half-written model is ever named
// `path`.
Result<std::uint64_t> write_synthetic_file(const SyntheticSpec& spec, const std::filesystem::path& path,
                                           std::uint32_t threads = 0, const SyntheticProgress& progress = {});
Result<std::vector<std::byte>> synthetic_bytes(const SyntheticSpec& spec);

}  // namespace flyball::model
