// How an error looks to a client of Ollama's API.
#pragma once

#include <string>
#include <string_view>

#include "config/error.hpp"
#include "daemon/http/message.hpp"

namespace flyball::api::ollama {

std::string error_json(const Error& error);  // {"error":"message"}
// With Retry-After as the error table says.
http::Response error_response(const Error& error, std::string_view request_id);

}  // namespace flyball::api::ollama
