// How an error looks to a client of Anthropic's API.
#pragma once

#include <string>
#include <string_view>

#include "config/error.hpp"
#include "daemon/http/message.hpp"

namespace flyball::api::anthropic {

// "invalid_request_error", "authentication_error", "overloaded_error", ...: by the status.
std::string_view error_type(ErrorCode code) noexcept;
// {"type":"error","error":{"type","message","param","code"},"request_id"}; param is null when there is none.
// Anthropic's own errors have no param and no code.
std::string error_json(const Error& error, std::string_view request_id);
// With Retry-After and x-should-retry as the error table says.
http::Response error_response(const Error& error, std::string_view request_id);

}  // namespace flyball::api::anthropic
