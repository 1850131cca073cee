#include "daemon/api/features.hpp"

#include <utility>

namespace flyball::api {

Error unserved(const config::Capability& capability, std::string param) {
  std::string message = param.empty() ? "" : "'" + param + "' is not served. ";
  message += config::sentence(capability);
  return {ErrorCode::unsupported_feature, std::move(message), std::move(param), {}};
}

config::ModelTraits traits_of(const BackendInfo* file) {
  return {.tool_template = file != nullptr ? file->tool_template : std::nullopt};
}

}  // namespace flyball::api
