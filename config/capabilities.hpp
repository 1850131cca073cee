// The capability table: the API features that this release serves, with their reasons. Engine kinds have the
// same APIs in front of them, so that their rows are alike; a model may lack what a feature needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace flyball::config {

enum class Feature : std::uint8_t {
  tools,
  schema,  // structured output: JSON, a schema, a grammar
  vision,
  audio,  // speech in
  speech_output,
  embeddings,
  rerank,
  context,
  logprobs,
  infill,  // an answer that fills in between two texts
  adapters,
  draft_model,
  fine_tuning,
  image_generation,
};
inline constexpr std::size_t kFeatures = 14;
std::string_view to_string(Feature feature) noexcept;  // "speech_output"

// limit: served within what `reason` says.
enum class Served : std::uint8_t { no, limit, yes };
std::string_view to_string(Served served) noexcept;  // "limit"
struct Capability {
  Served served = Served::no;
  std::string_view reason;  // a clause behind "Flyball", "" for yes
  bool operator==(const Capability&) const = default;
};

// Traits of a model that an answer depends on. Absent: not known.
struct ModelTraits {
  std::optional<bool> tool_template = {};  // its chat template has a place for tools
  std::optional<bool> infills = {};        // its vocabulary has infill tokens
};

// The capability of an engine kind with such a model. `kind`: the id of an engine kind; every other name is
// that of an upstream.
Capability capability(std::string_view kind, const ModelTraits& model, Feature feature) noexcept;
// The best of all engine kinds: a request for what none serves is refused before an engine is looked for.
Capability capability(Feature feature, const ModelTraits& model = {}) noexcept;

// "Flyball does not serve embeddings."; the reason of a capability as a sentence.
std::string sentence(const Capability& capability);

// The formats and architectures that the table has a row for.
std::span<const std::string_view> weight_formats() noexcept;
std::span<const std::string_view> architectures() noexcept;

// Whether engines of a kind read weights in a format, named as the fact model.format names it.
Capability reads_weights(std::string_view kind, std::string_view format) noexcept;

// Whether engines of a kind run models of an architecture, named as the fact model.architecture names it.
Capability runs_architecture(std::string_view kind, std::string_view architecture) noexcept;

// Whether engines of a kind compute the routed experts of a mixture alone, and which of them they keep.
std::string_view mixture_of_experts(std::string_view kind) noexcept;

}  // namespace flyball::config
