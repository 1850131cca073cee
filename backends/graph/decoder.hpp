// The forward pass of a decoder-only transformer (LLaMA, arXiv:2302.13971: pre-norm, RoPE, grouped-query
// attention, SwiGLU; Qwen2's biases, Qwen3's norms of heads, Mixtral's experts; Gemma's windows, caps and
// norms behind, arXiv:2408.00118 and 2503.19786), written once against ops.hpp for every device.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "backends/graph/ops.hpp"
#include "backends/model/model_config.hpp"

namespace flyball::graph {

struct BufferShape {
  std::uint32_t rows = 0, cols = 0;  // f32
  std::uint64_t bytes() const noexcept { return 4ULL * rows * cols; }
};
using BufferPlan = std::array<BufferShape, kBufferCount>;  // by Buffer

// What a device allocates for steps of at most `step_tokens` rows of which at most `wanted_rows` yield
// logits, and those at most `max_candidates` candidates.
BufferPlan plan_buffers(const model::ModelConfig& config, std::uint32_t step_tokens,
                        std::uint32_t wanted_rows, std::uint32_t max_candidates = 0);
std::uint64_t plan_bytes(const BufferPlan& plan) noexcept;

// Layers [begin, end) of a model, and whether what stands before the first and after the last one belongs to
// it.
struct ModelPart {
  std::uint32_t begin = 0, end = 0;
  bool embeds = false, projects = false;
  std::uint32_t n_layers() const noexcept { return end - begin; }
};
inline ModelPart whole_model(const model::ModelConfig& config) noexcept {
  return {0, config.n_layers, true, true};
}

// Runs one step. Afterwards Buffer::logits holds a row for each wanted one, in order, Buffer::candidates what
// top_k asked for; the cache holds every row's KV. Preconditions: rows and wanted rows are within the plan;
// tokens are below vocab_size.
// False: go_on, if there is one, was asked before each layer and said no: the rest was left out.
bool decode_step(const model::ModelConfig& config, const StepInputs& inputs, Ops& ops,
                 const std::function<bool()>& go_on = {});
// The same of one part, which holds at least a layer. Where it does not embed, Buffer::residual holds the
// rows that the part before it left there; where it does not project, it leaves them there for the next.
bool decode_part(const model::ModelConfig& config, const ModelPart& part, const StepInputs& inputs, Ops& ops,
                 const std::function<bool()>& go_on = {});

}  // namespace flyball::graph
