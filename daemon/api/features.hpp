// The capability table as requests meet it.
#pragma once

#include <string>

#include "backends/backend.hpp"
#include "config/capabilities.hpp"
#include "config/error.hpp"

namespace flyball::api {

// unsupported_feature: "'tools' is not served. Flyball does not serve ...". `param`: the field that asks for
// it, "" for a path.
Error unserved(const config::Capability& capability, std::string param);

// `file`: what the model's file says of itself; nullptr: not known.
config::ModelTraits traits_of(const BackendInfo* file);

}  // namespace flyball::api
