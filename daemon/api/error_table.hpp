// The one place that says how an ErrorCode looks to an HTTP client: status, type, and whether to try again.
// docs/errors.md is checked against this table by a test.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "config/error.hpp"
#include "daemon/http/message.hpp"

namespace flyball::api {

enum class Retry : std::uint8_t {
  no,     // x-should-retry: false: the same request would fail again
  later,  // Retry-After
  free,   // says nothing: the client's own rule applies
};

struct ErrorRow {
  ErrorCode code;
  int status;
  std::string_view type;
  Retry retry;
  std::string_view meaning;  // for docs/errors.md
};

std::span<const ErrorRow> error_table() noexcept;  // one row per code, in the order of the enumerators
const ErrorRow& error_row(ErrorCode code) noexcept;

// {"error":{"message","type","param","code"}}; param is null when there is none.
std::string error_json(const Error& error);
// With Retry-After and x-should-retry as the table says.
http::Response error_response(const Error& error);

}  // namespace flyball::api
