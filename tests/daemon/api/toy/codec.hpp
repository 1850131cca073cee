// An API that exists in tests alone, to show that a codec is a folder and a row: a key field and an error
// shape of its own, every operation, every event, every framing.
//
//   POST /toy/say[?as=lines|events]  {"say":TEXT,"n":N,"logprobs":true}; streamed where `as` says how
//   POST /toy/upload                 multipart/form-data: the part "text" is the prompt
//   GET  /toy/models, /toy/models/ID, /toy/health, /toy/ready, /toy/metrics, /toy/receipts/ID
//   POST /toy/why                    {"model":ID}: explain
#pragma once

#include "daemon/api/codec.hpp"

namespace flyball::testing::toy {

extern const api::Codec kCodec;

}  // namespace flyball::testing::toy
