// Anthropic's Messages API: messages, and the models in its shape.
#pragma once

#include "daemon/api/codec.hpp"

namespace flyball::api::anthropic {

extern const Codec kCodec;

}  // namespace flyball::api::anthropic
