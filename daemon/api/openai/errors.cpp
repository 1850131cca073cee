#include "daemon/api/openai/errors.hpp"

#include "daemon/api/error_table.hpp"
#include "daemon/api/framing.hpp"
#include "daemon/api/json_text.hpp"

namespace flyball::api::openai {

std::string_view error_type(ErrorCode code) noexcept {
  switch (error_row(code).fault) {
    case Fault::request:
      return "invalid_request_error";
    case Fault::permission:
      return "permission_error";
    case Fault::limit:
      return "rate_limit_error";
    case Fault::server:
      break;
  }
  return "server_error";
}

std::string error_json(const Error& error) {
  std::string out = R"({"error":{"message":)";
  append_json_string(out, error.message);
  out.append(R"(,"type":)");
  append_json_string(out, error_type(error.code));
  out.append(R"(,"param":)");
  if (error.param.empty())
    out.append("null");
  else
    append_json_string(out, error.param);
  out.append(R"(,"code":)");
  append_json_string(out, to_string(error_row(error.code).code));
  out.append("}}");
  return out;
}

http::Response error_response(const Error& error, std::string_view) {
  const ErrorRow& row = error_row(error.code);
  http::Response response = json_response(error_json(error));
  response.status = row.status;
  if (row.retry == Retry::no) response.fields.push_back({"x-should-retry", "false"});
  append_retry_after(row, response.fields);
  return response;
}

}  // namespace flyball::api::openai
