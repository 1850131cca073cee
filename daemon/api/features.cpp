#include "daemon/api/features.hpp"

#include <utility>

namespace flyball::api {

Error unserved(const config::Capability& capability, std::string param) {
  std::string message = param.empty() ? "" : "'" + param + "' is not served. ";
  message += config::sentence(capability);
  return {ErrorCode::unsupported_feature, std::move(message), std::move(param), {}};
}

config::ModelTraits traits_of(const BackendInfo* file) {
  if (file == nullptr) return {};
  return {.tool_template = file->tool_template, .infills = file->infills};
}

}  // namespace flyball::api
