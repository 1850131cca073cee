// Scalars of requests: name, type, range, default, and where each goes; a row of an API's table for each. The
// engine checks the same ranges again (flyball::check). And the two other settings that every API has.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "backends/backend.hpp"
#include "config/error.hpp"
#include "daemon/api/field_table.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api {

class Fields;

// `max_tokens` of a request that wants as many tokens as the context leaves.
inline constexpr std::uint32_t kNoTokenLimit = UINT32_MAX;
inline constexpr std::size_t kMaxStops = 16, kMaxStopBytes = 256;

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

// A value out of the range that clients of other servers send, and the value that it stands for.
struct Sentinel {
  double value, stands_for;
  std::string_view words;            // what it means
  std::optional<double> other = {};  // a second such value
};

inline constexpr double kMaxTokens = 1'000'000;  // beyond any context this release can hold
// Tokens whose probability sums up to as good as nothing: the likeliest one.
inline constexpr Sentinel kLikeliestAlone{0, std::numeric_limits<float>::min(), "the likeliest token alone"};
inline constexpr Sentinel kOff{-1, 0, "off"};
inline constexpr Sentinel kNoLimit{-1, kNoTokenLimit, "what the context leaves"};

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
  FieldOf of = FieldOf::body;
};

std::string_view type_name(const Parameter& parameter) noexcept;  // "number", "integer", "boolean"

// Reads every scalar of the table that the object has; null counts as absent. invalid_value with the place as
// param, the value and the range in the message; also where two names of one setting differ.
Result<void> read_parameters(const Fields& object, SamplingParams& sampling, Scalars& scalars);

// `stop`, or the API's other name for it: a string, or an array of them. invalid_value.
Result<void> read_stop(const Fields& object, std::vector<std::string>& stop, std::string_view name = "stop");
// `seed`: a 64-bit integer, or -1 for one that is drawn. invalid_value.
Result<void> read_seed(const Fields& object, Generate& out);

}  // namespace flyball::api
