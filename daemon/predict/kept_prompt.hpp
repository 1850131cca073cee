// A kept prefix as engines are asked for it and as predictions know it. It is made once, by the thread that
// reads the manifests: it may have megabytes.
#pragma once

#include <array>
#include <cstdint>

#include "backends/backend.hpp"
#include "daemon/predict/prefix_blocks.hpp"

namespace flyball::predict {

struct KeptPrompt {
  Prompt prompt;
  PromptPrint print;                      // under print_key()
  std::array<std::uint8_t, 32> digest{};  // SHA-256 of all that its tokens come from but the model
};

}  // namespace flyball::predict
