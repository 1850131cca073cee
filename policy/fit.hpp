// Whether models that are known by their size alone fit into a machine that is known by its memory alone.
// `flyball plan` says it of a model file.
#pragma once

#include <cstdint>
#include <string>

#include "policy/facts.hpp"
#include "policy/scenario.hpp"

namespace flyball::policy {

struct ModelNeed {
  std::int64_t weights = 0, kv = 0;  // bytes
  std::int64_t total() const noexcept { return weights + kv; }
};
// Weights at so many bits each, and the KV cache of one sequence: f16 keys and values of each layer and KV
// head, as graph::KvLayout counts them, of the usual dense model of this size.
ModelNeed model_need(std::int64_t parameters, double bits, std::int64_t context) noexcept;

// partly: with the machine's memory beside the GPUs', or one of the models at a time.
enum class Fits : std::uint8_t { unknown, no, partly, yes };
std::string_view to_string(Fits fits) noexcept;

struct Fit {
  Fits fits = Fits::unknown;
  std::string sentence;        // "" where no model's size is known
  bool knows_machine = false;  // the memory beside the GPUs'
  bool one_machine = true;     // false: several machines hold together what one of them does not
};
// The context is the fact model.context, or 8K.
Fit fit_of(const Reading& reading, const Facts& facts);

}  // namespace flyball::policy
