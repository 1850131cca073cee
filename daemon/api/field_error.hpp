// A refusal that names its field, in the message and as its param: "'messages[2].role' is required."
#pragma once

#include <string>
#include <utility>

#include "config/error.hpp"

namespace flyball::api {

inline std::unexpected<Error> field_error(ErrorCode code, std::string field, const std::string& what) {
  std::string message = "'" + field + "' " + what + ".";
  return fail(code, std::move(message), std::move(field));
}

}  // namespace flyball::api
