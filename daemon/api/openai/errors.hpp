// How an ErrorCode looks to a client of OpenAI's API.
#pragma once

#include <string>
#include <string_view>

#include "config/error.hpp"
#include "daemon/http/message.hpp"

namespace flyball::api::openai {

// "invalid_request_error", "permission_error", "rate_limit_error", "server_error": by whose fault it is.
std::string_view error_type(ErrorCode code) noexcept;
// {"error":{"message","type","param","code"}}; param is null when there is none.
std::string error_json(const Error& error);
// With Retry-After and x-should-retry as the error table says.
http::Response error_response(const Error& error, std::string_view request_id);

}  // namespace flyball::api::openai
