// Errors of schemas, with the JSON pointer of their place. Pure.
#pragma once

#include <string>
#include <utility>

#include "backends/grammar/schema_document.hpp"
#include "config/error.hpp"

namespace flyball::grammar {

inline std::unexpected<Error> malformed(const Place& at, std::string what) {
  return fail(ErrorCode::invalid_value, std::move(what), {}, at.pointer.text());
}
inline std::unexpected<Error> unsupported(const Place& at, std::string what) {
  return fail(ErrorCode::unsupported_feature, std::move(what), {}, at.pointer.text());
}
inline std::unexpected<Error> too_large(const Place& at, std::string what) {
  return fail(ErrorCode::unsupported_value, std::move(what), {}, at.pointer.text());
}
// from_json_schema adds the limit.
inline std::unexpected<Error> out_of_fuel(const Place& at) {
  return too_large(at, "The schema takes more work than one constraint may cost.");
}

// The error of a part, with the place in the schema. Places within patterns are in the message already.
template <class T>
Result<T> located(Result<T> result, const Place& at) {
  if (!result) result.error().where = at.pointer.text();
  return result;
}

}  // namespace flyball::grammar
