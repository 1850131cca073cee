// Ollama's API, as far as its clients need it for chats and texts: chat, generate, tags, show, ps and
// version.
#pragma once

#include "daemon/api/codec.hpp"

namespace flyball::api::ollama {

extern const Codec kCodec;

}  // namespace flyball::api::ollama
