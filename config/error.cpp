#include "config/error.hpp"

#include <array>

namespace flyball {
namespace {

// In the order of the enumerators; the static_assert below keeps the two lists the same length.
constexpr std::array<std::string_view, 43> kNames = {
    "invalid_json",        "json_too_deep",       "json_too_large",
    "invalid_value",       "missing_field",       "unknown_field",
    "unsupported_value",   "unsupported_feature", "context_length_exceeded",
    "template_error",      "template_budget",     "invalid_api_key",
    "host_not_allowed",    "model_not_found",     "bad_framing",
    "headers_too_large",   "body_too_large",      "request_timeout",
    "not_found",           "method_not_allowed",  "unsupported_media_type",
    "unsupported_coding",  "rate_limited",        "token_limit_exceeded",
    "overloaded",          "deadline_exceeded",   "slo_unattainable",
    "insufficient_memory", "shutting_down",       "model_invalid",
    "model_unsupported",   "model_unavailable",   "no_target",
    "numeric_error",       "device_lost",         "worker_died",
    "upstream_refused",    "upstream_timeout",    "upstream_invalid",
    "config_invalid",      "receipt_outdated",    "io_error",
    "cancelled",
};
static_assert(kNames.size() == static_cast<std::size_t>(ErrorCode::internal));

}  // namespace

std::string_view to_string(ErrorCode code) noexcept {
  const auto i = static_cast<std::size_t>(code);
  return i < kNames.size() ? kNames[i] : "internal";
}

ErrorCode error_code_from(std::string_view text) noexcept {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == text) return static_cast<ErrorCode>(i);
  return ErrorCode::internal;
}

std::string describe(const Error& error) {
  std::string text = error.where.empty() ? "" : error.where + ": ";
  text += error.message;
  return text + " [" + std::string(to_string(error.code)) + "]";
}

}  // namespace flyball
