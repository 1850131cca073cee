// The daemon's own routes: health, metrics, why requests go where they go. Errors have OpenAI's shape.
#pragma once

#include "daemon/api/codec.hpp"

namespace flyball::api::native {

extern const Codec kCodec;

}  // namespace flyball::api::native
