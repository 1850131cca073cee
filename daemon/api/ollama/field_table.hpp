// The fields of requests to Ollama's paths. docs/ollama.md is checked against it by a test.
#pragma once

#include "daemon/api/field_table.hpp"

namespace flyball::api::ollama {

inline constexpr Endpoints kChat = 1, kGenerate = 2, kBoth = 3, kShow = 4;

const FieldTable& field_table();

}  // namespace flyball::api::ollama
