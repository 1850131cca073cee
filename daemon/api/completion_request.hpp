// A client's body to a typed request: POST /v1/chat/completions and POST /v1/completions. Pure; what the
// template and the tokenizer may object to is found later, in the engine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "config/error.hpp"
#include "daemon/api/encoder.hpp"

namespace flyball::api {

// Limits beside those of the parameter table.
inline constexpr std::size_t kMaxStops = 16, kMaxStopBytes = 256;
inline constexpr std::size_t kMaxMessages = 4'096;
inline constexpr std::size_t kMaxLogitBias = 1'024;
inline constexpr std::size_t kMaxChoices = 16;         // prompts times n
inline constexpr std::uint32_t kLegacyMaxTokens = 16;  // the API's default for completions

struct InferenceRequest {
  Operation operation = Operation::chat;
  std::string model;  // as the client wrote it; "" if absent
  bool stream = false, include_usage = false;
  bool seeded = false;  // the client gave a seed
  bool has_tools = false, wants_json = false;
  std::uint32_t n = 1;          // answers per prompt
  std::vector<Prompt> prompts;  // one for chat
  CompletionRequest base;       // all but id and prompt; its seed is the first choice's
  std::uint64_t prompt_bytes = 0;

  std::size_t choices() const noexcept { return prompts.size() * n; }
};

// invalid_json, json_too_deep, json_too_large, missing_field, invalid_value, unsupported_value. Unknown
// top-level fields are ignored, as the API's own clients send new ones ahead of their servers.
Result<InferenceRequest> parse_inference_request(Operation operation, std::string_view body);

}  // namespace flyball::api
