#include "config/capabilities.hpp"

#include <algorithm>
#include <array>

#include "config/engine_kinds.hpp"

namespace flyball::config {
namespace {

// By place of the kind in kEngineKinds. Rows of one Capability are alike: every kind has the same APIs in
// front.
struct PerEngine {
  consteval PerEngine(Served served, std::string_view reason) { cells.fill({served, reason}); }
  std::array<Capability, kEngineKinds.size()> cells;

  Capability of(std::string_view kind) const noexcept {
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (kEngineKinds[i].id == kind) return cells[i];
    return {Served::no, "cannot be given an upstream in this release"};
  }
};

struct Row {
  Feature feature;
  std::string_view name;
  PerEngine engines;
};

// In the order of Feature.
constexpr std::array<Row, kFeatures> kRows{{
    {Feature::tools,
     "tools",
     {Served::limit,
      "serves functions as tools, with every tool_choice, but beside structured output only where that is "
      "JSON"}},
    {Feature::schema,
     "schema",
     {Served::limit,
      "serves structured output by JSON Schema 2020-12, regular expressions, GBNF, lists of choices and "
      "structural tags, and "
      "refuses a constraint that it cannot enforce exactly"}},
    {Feature::vision, "vision", {Served::no, "does not serve images: prompts are text"}},
    {Feature::audio, "audio", {Served::no, "does not serve speech: prompts are text"}},
    {Feature::speech_output, "speech_output", {Served::no, "does not serve speech: answers are text"}},
    {Feature::embeddings, "embeddings", {Served::no, "does not serve embeddings"}},
    {Feature::rerank, "rerank", {Served::no, "does not serve reranking"}},
    {Feature::context,
     "context",
     {Served::limit, "serves the context that the model was made for, within the memory for its KV cache"}},
    {Feature::logprobs, "logprobs", {Served::limit, "serves up to 20 top_logprobs for each token"}},
    {Feature::infill,
     "infill",
     {Served::limit,
      "fills in between two texts (suffix) with a model whose vocabulary has a prefix, a suffix and a middle "
      "token"}},
    {Feature::adapters, "adapters", {Served::no, "does not serve adapters (LoRA)"}},
    {Feature::draft_model,
     "draft_model",
     {Served::no, "does not serve draft models: no model drafts for another one"}},
    {Feature::fine_tuning, "fine_tuning", {Served::no, "does not serve fine-tuning"}},
    {Feature::image_generation, "image_generation", {Served::no, "does not make images: answers are text"}},
}};
static_assert([] {
  for (std::size_t i = 0; i < kRows.size(); ++i)
    if (kRows[i].feature != static_cast<Feature>(i)) return false;
  return true;
}());

constexpr Capability kNoTemplate{Served::limit,
                                 "tells such a model its tools in a system message, and serves them beside "
                                 "structured output only where that is JSON"};
constexpr Capability kNoInfill{Served::no,
                               "cannot fill in between two texts with a model that has no infill tokens"};
constexpr PerEngine kYes{Served::yes, ""};

struct Format {
  std::string_view name;
  PerEngine engines;
};
constexpr std::array kFormats{
    Format{"gguf", kYes},
    Format{"mlx", kYes},
    Format{"mlc", {Served::no, "does not read MLC weights: it reads GGUF files and MLX directories"}},
    Format{"awq", {Served::no, "does not read AWQ weights: it reads GGUF files and MLX directories"}},
    Format{"gptq", {Served::no, "does not read GPTQ weights: it reads GGUF files and MLX directories"}},
    Format{"exl2", {Served::no, "does not read EXL2 weights: it reads GGUF files and MLX directories"}},
    Format{"exl3", {Served::no, "does not read EXL3 weights: it reads GGUF files and MLX directories"}},
    Format{"bitsandbytes",
           {Served::no, "does not read bitsandbytes weights: it reads GGUF files and MLX directories"}},
    Format{"fp8", {Served::no, "does not read FP8 weights: it reads GGUF files and MLX directories"}},
    Format{"coreml", {Served::no, "does not read Core ML models: it reads GGUF files and MLX directories"}},
};

// The families of backends/model/family.cpp: a test compares them.
constexpr std::array<std::string_view, 10> kArchitectures{
    "llama", "qwen2", "qwen3", "qwen3moe", "phi3", "gemma2", "gemma3", "granite", "mistral3", "smollm3"};

}  // namespace

std::string_view to_string(Feature feature) noexcept {
  return kRows[static_cast<std::size_t>(feature)].name;
}

std::string_view to_string(Served served) noexcept {
  constexpr std::array<std::string_view, 3> kNames{"no", "limit", "yes"};
  return kNames[static_cast<std::size_t>(served)];
}

std::string sentence(const Capability& capability) {
  return capability.reason.empty() ? "" : "Flyball " + std::string(capability.reason) + ".";
}

std::span<const std::string_view> weight_formats() noexcept {
  static constexpr auto kNames = [] {
    std::array<std::string_view, kFormats.size()> out;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = kFormats[i].name;
    return out;
  }();
  return kNames;
}

std::span<const std::string_view> architectures() noexcept {
  return kArchitectures;
}

Capability capability(std::string_view kind, const ModelTraits& model, Feature feature) noexcept {
  if (feature == Feature::tools && model.tool_template == false && find_engine_kind(kind) != nullptr)
    return kNoTemplate;
  if (feature == Feature::infill && model.infills == false && find_engine_kind(kind) != nullptr)
    return kNoInfill;
  return kRows[static_cast<std::size_t>(feature)].engines.of(kind);
}

Capability capability(Feature feature, const ModelTraits& model) noexcept {
  Capability best = capability(kCpu.id, model, feature);
  for (const EngineKind& kind : kEngineKinds)
    if (const Capability one = capability(kind.id, model, feature); one.served > best.served) best = one;
  return best;
}

Capability reads_weights(std::string_view kind, std::string_view format) noexcept {
  const auto* row = std::ranges::find(kFormats, format, &Format::name);
  constexpr PerEngine kUnknown{Served::no, "does not know weights in this format"};
  return (row == kFormats.end() ? kUnknown : row->engines).of(kind);
}

Capability runs_architecture(std::string_view kind, std::string_view architecture) noexcept {
  constexpr PerEngine kUnknown{Served::no, "does not run models of this architecture"};
  const bool runs = std::ranges::find(kArchitectures, architecture) != kArchitectures.end();
  return (runs ? kYes : kUnknown).of(kind);
}

std::string_view mixture_of_experts(std::string_view kind) noexcept {
  const EngineKind* found = find_engine_kind(kind);
  if (found == nullptr) return "";
  if (found->memory == EngineKind::Memory::device)
    return "keeps all experts of a mixture in the GPU's memory, and computes the routed ones";
  return "computes the routed experts of a mixture alone, and reads experts that do not fit into memory from "
         "disk";
}

}  // namespace flyball::config
