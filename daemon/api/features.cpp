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

Result<void> check_features(const route::RequestTraits& request, const BackendInfo* file) {
  if (!request.has_tools) return {};
  const config::Capability tools = config::capability(config::Feature::tools, traits_of(file));
  if (tools.served != config::Served::no) return {};
  return std::unexpected(unserved(tools, "tools"));
}

}  // namespace flyball::api
