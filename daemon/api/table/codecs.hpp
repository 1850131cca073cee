// The APIs that this daemon speaks.
#pragma once

#include "daemon/api/codec.hpp"

namespace flyball::api {

// The first codec answers a request that belongs to none. The earlier of two codecs with the same path and
// method gets the request.
Codecs all_codecs() noexcept;

}  // namespace flyball::api
