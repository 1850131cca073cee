// The one error type of the house. Foreseeable failures are values of it; broken invariants abort.
// An Error names what is wrong (code), says it in a sentence with the value and the limit (message),
// and where (param: a request field; where: file:line:column, byte offset or JSON pointer).
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace flyball {

// The spelling of each enumerator is the `code` that clients read (docs/errors.md, daemon/api/error_table).
enum class ErrorCode : std::uint8_t {
  // the request
  invalid_json,
  json_too_deep,
  json_too_large,
  invalid_value,
  missing_field,
  unknown_field,
  unsupported_value,
  unsupported_feature,
  context_length_exceeded,
  template_error,
  template_budget,
  // who asks, and for what
  invalid_api_key,
  host_not_allowed,
  model_not_found,
  // HTTP itself
  bad_framing,
  headers_too_large,
  body_too_large,
  request_timeout,
  not_found,
  method_not_allowed,
  unsupported_media_type,
  unsupported_coding,
  // capacity
  rate_limited,
  token_limit_exceeded,
  overloaded,
  deadline_exceeded,
  slo_unattainable,
  insufficient_memory,
  shutting_down,
  // engines and models
  model_invalid,
  model_unsupported,
  model_unavailable,
  no_target,
  numeric_error,
  device_lost,
  worker_died,
  upstream_refused,
  upstream_timeout,
  upstream_invalid,
  // operator's files, the machine
  config_invalid,
  receipt_outdated,
  io_error,
  cancelled,
  internal,
};

// "invalid_json" and so on; never empty.
std::string_view to_string(ErrorCode code) noexcept;
// The reverse, for codes that crossed a process line. Unknown text gives `internal`.
ErrorCode error_code_from(std::string_view text) noexcept;

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;  // one sentence, safe to show a client
  std::string param;    // request field or option, "" if none
  std::string where;    // file:line:column, "byte 17", "/messages/0", "" if none
};

template <class T>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(ErrorCode code, std::string message, std::string param = {},
                                   std::string where = {}) {
  return std::unexpected(Error{code, std::move(message), std::move(param), std::move(where)});
}

// For a log or a terminal: "apps.d/a.yaml:3:5: unknown key ... [config_invalid]".
std::string describe(const Error& error);

// The one way to pass an error on: `return pass(failed);` gives the error of one result as that of another.
// It is taken out of a result that may change, and copied from one that may not.
template <class T, class E>
std::unexpected<E> pass(std::expected<T, E>& failed) {
  return std::unexpected(std::move(failed.error()));
}
template <class T, class E>
std::unexpected<E> pass(const std::expected<T, E>& failed) {
  return std::unexpected(failed.error());
}

}  // namespace flyball
