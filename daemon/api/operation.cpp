#include "daemon/api/operation.hpp"

namespace flyball::api {

const char* to_string(Generate::Kind kind) noexcept {
  return kind == Generate::Kind::chat ? "chat" : "completion";
}

route::RequestTraits traits_of(const Generate& request) {
  route::RequestTraits out;
  out.operation = to_string(request.kind);
  out.model_as_asked = request.model;
  out.prompt_bytes = request.prompt_bytes;
  out.max_tokens = request.base.max_tokens;
  out.n = request.n;
  out.stream = request.stream.has_value();
  out.has_tools = request.has_tools;
  out.wants_json = request.wants_json;
  return out;
}

}  // namespace flyball::api
