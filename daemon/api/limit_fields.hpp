// The header fields that tell a client where its app stands: x-ratelimit-*, spelled as OpenAI's API spells
// them, and Retry-After.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/http/message.hpp"
#include "daemon/route/limits.hpp"

namespace flyball::api {

// "17ms", "1s", "6m0s", "2h0m5s": rounded up, to seconds from one on. milliseconds >= 0.
std::string spelled_duration(std::int64_t milliseconds);

// Nothing for what is not limited.
void append_standings(const route::Standings& standings, std::vector<http::Field>& fields);
// Whole seconds, rounded up, at least 1; in place of the one that is there.
void set_retry_after(std::int64_t milliseconds, std::vector<http::Field>& fields);

}  // namespace flyball::api
