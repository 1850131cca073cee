// The body of POST /v1/engines/load and /v1/engines/unload. Pure.
#pragma once

#include <string>
#include <string_view>

#include "config/error.hpp"

namespace flyball::api::native {

struct ModelAndEngine {
  std::string model;   // id or alias, as the client wrote it
  std::string engine;  // an engine kind's id; "": absent
};

// {"model": ID} or {"model": ID, "engine": KIND}. invalid_json; missing_field; invalid_value: a field of
// another type; unknown_field: of another name, because an engine that is misspelled must not stand for all.
Result<ModelAndEngine> parse_model_and_engine(std::string_view body);

}  // namespace flyball::api::native
