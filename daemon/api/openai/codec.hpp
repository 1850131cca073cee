// OpenAI's API: models, chat completions and legacy completions.
#pragma once

#include "daemon/api/codec.hpp"

namespace flyball::api::openai {

extern const Codec kCodec;

}  // namespace flyball::api::openai
