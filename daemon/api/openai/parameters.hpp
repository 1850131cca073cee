// The one table of scalar request parameters: name, type, range, default, and where each goes.
// docs/http-api.md is checked against it by a test; the engine checks the same ranges again (flyball::check).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "backends/backend.hpp"
#include "config/error.hpp"

namespace flyball::api::openai {

class Fields;

// `max_tokens` of a request that wants as many tokens as the context leaves.
inline constexpr std::uint32_t kNoTokenLimit = UINT32_MAX;

// Scalars of a request that are not sampling parameters.
struct Scalars {
  std::uint32_t max_tokens = 0;  // 0: not given; kNoTokenLimit
  std::uint32_t n = 1;
  std::uint32_t best_of = 0;  // 0: not given
  bool stream = false;
  bool echo = false;
  bool logprobs = false;              // chat
  std::int32_t top_logprobs = -1;     // chat; -1: not given
  std::int32_t legacy_logprobs = -1;  // completions; -1: not given
  bool ignore_eos = false;
};

enum Endpoints : std::uint8_t { kChat = 1, kCompletions = 2, kBoth = 3, kExplain = 4, kEverywhere = 7 };
constexpr Endpoints operator|(Endpoints a, Endpoints b) noexcept {
  return static_cast<Endpoints>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

// A value out of the range that clients of other servers send, and the value that it stands for.
struct Sentinel {
  double value, stands_for;
  std::string_view words;  // what it means
};

// `min_excluded`: the range is open at its lower end. Parameters of one destination are names of one setting.
struct Parameter {
  using Destination = std::variant<float SamplingParams::*, std::int32_t SamplingParams::*,
                                   std::uint32_t Scalars::*, std::int32_t Scalars::*, bool Scalars::*>;
  std::string_view name;
  Endpoints endpoints;
  double min, max;
  bool min_excluded;
  std::string_view fallback;  // the default in words
  Destination destination;
  std::optional<Sentinel> sentinel = {};
};

std::span<const Parameter> parameters() noexcept;
std::string_view type_name(const Parameter& parameter) noexcept;  // "number", "integer", "boolean"

// Reads every scalar of the table that `body` has; null counts as absent. invalid_value with the
// name as param, the value and the range in the message; also where two names of one setting differ.
Result<void> read_parameters(const Fields& body, Endpoints endpoint, SamplingParams& sampling,
                             Scalars& scalars);

}  // namespace flyball::api::openai
