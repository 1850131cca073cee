// The refusals of a model's files: the message says value and limit, `where` the key, the tensor or the byte.
#pragma once

#include <string>
#include <utility>

#include "config/error.hpp"

namespace flyball::model {

inline std::unexpected<Error> invalid(std::string message, std::string where = {}) {
  return fail(ErrorCode::model_invalid, std::move(message), {}, std::move(where));
}

// Of what is sound, but nothing that this build runs.
inline std::unexpected<Error> unsupported(std::string message, std::string where) {
  return fail(ErrorCode::model_unsupported, std::move(message), {}, std::move(where));
}

}  // namespace flyball::model
