// Moments as APIs write them.
#pragma once

#include <cstdint>
#include <string>

namespace flyball::api {

std::string rfc3339(std::int64_t seconds);  // since the epoch: "2026-11-28T18:20:00Z"

}  // namespace flyball::api
