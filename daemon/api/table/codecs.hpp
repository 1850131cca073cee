// The APIs that this daemon speaks.
#pragma once

#include "daemon/api/codec.hpp"

namespace flyball::api {

// The first one answers where a request belongs to none. Where two have the same path and method, the earlier
// one gets it.
Codecs all_codecs() noexcept;

}  // namespace flyball::api
