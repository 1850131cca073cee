// The meaning of every ErrorCode to an HTTP client, whatever its API: status, whose fault it is, and whether to
// try again. The shape and the words are the codecs' (openai/errors). docs/errors.md is checked against this
// table by a test.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "config/error.hpp"
#include "daemon/http/message.hpp"

namespace flyball::api {

enum class Retry : std::uint8_t {
  no,     // the same request would fail again
  later,  // Retry-After
  free,   // says nothing: the client's own rule applies
};

enum class Fault : std::uint8_t { request, permission, limit, server };

struct ErrorRow {
  ErrorCode code;
  int status;
  Fault fault;
  Retry retry;
  std::string_view meaning;  // for docs/errors.md
};

std::span<const ErrorRow> error_table() noexcept;  // one row per code, in the order of the enumerators
const ErrorRow& error_row(ErrorCode code) noexcept;

// Retry-After where the row says `later`.
void append_retry_after(const ErrorRow& row, std::vector<http::Field>& fields);

}  // namespace flyball::api
