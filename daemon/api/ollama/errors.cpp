#include "daemon/api/ollama/errors.hpp"

#include "daemon/api/error_table.hpp"
#include "daemon/api/framing.hpp"
#include "daemon/api/json_text.hpp"

namespace flyball::api::ollama {

std::string error_json(const Error& error) {
  std::string out = R"({"error":)";
  append_json_string(out, error.message);
  return out + "}";
}

http::Response error_response(const Error& error, std::string_view) {
  const ErrorRow& row = error_row(error.code);
  http::Response response = json_response(error_json(error));
  response.status = row.status;
  append_retry_after(row, response.fields);
  return response;
}

}  // namespace flyball::api::ollama
