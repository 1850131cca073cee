#include "daemon/api/anthropic/errors.hpp"

#include "daemon/api/error_table.hpp"
#include "daemon/api/framing.hpp"
#include "daemon/api/json_text.hpp"

namespace flyball::api::anthropic {

std::string_view error_type(ErrorCode code) noexcept {
  const ErrorRow& row = error_row(code);
  switch (row.status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return row.retry == Retry::later ? "overloaded_error" : "api_error";
    case 504:
      return "timeout_error";
    default:
      return row.status < 500 ? "invalid_request_error" : "api_error";
  }
}

std::string error_json(const Error& error, std::string_view request_id) {
  std::string out = R"({"type":"error","error":{"type":)";
  append_json_string(out, error_type(error.code));
  out.append(R"(,"message":)");
  // Claude Code knows a conversation that it has to shorten by these words.
  const bool too_long = error.code == ErrorCode::context_length_exceeded;
  append_json_string(out, too_long ? "prompt is too long: " + error.message : error.message);
  out.append(R"(,"param":)");
  if (error.param.empty())
    out.append("null");
  else
    append_json_string(out, error.param);
  out.append(R"(,"code":)");
  append_json_string(out, to_string(error_row(error.code).code));
  out.append(R"(},"request_id":)");
  append_json_string(out, request_id);
  out.push_back('}');
  return out;
}

http::Response error_response(const Error& error, std::string_view request_id) {
  const ErrorRow& row = error_row(error.code);
  http::Response response = json_response(error_json(error, request_id));
  response.status = row.status;
  if (row.retry == Retry::no) response.fields.push_back({"x-should-retry", "false"});
  append_retry_after(row, response.fields);
  return response;
}

}  // namespace flyball::api::anthropic
