// How much a model is to reason, told to its chat template. Templates read it under several names. Pure.
#pragma once

#include <string_view>

#include "config/packed_json.hpp"

namespace flyball::api {

struct ReasoningWish {
  bool on = true;
  // none, minimal, low, medium, high, xhigh or max; "": the client says no more than whether.
  std::string_view effort;
};

// Template variables: those that the client named itself (`given`, an object or absent), and beside them
// `reasoning_effort` (gpt-oss, Mistral: the nearest of low, medium and high), `enable_thinking` (Qwen, GLM,
// SmolLM) and `thinking` (DeepSeek, Granite), where `given` has no such name.
PackedJson reasoning_variables(const ReasoningWish& wish, JsonView given);

}  // namespace flyball::api
