// What a client asks POST /v1/route/explain, and the traits of a request that the policy looks at. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/api/completion_request.hpp"
#include "daemon/route/facts.hpp"
#include "policy/facts.hpp"

namespace flyball::api {

route::RequestTraits traits_of(const InferenceRequest& request);

struct ExplainQuestion {
  route::RequestTraits traits;
  std::vector<std::pair<std::string, policy::FactValue>> overrides;
};
// A chat or completion body as its endpoint takes it, or {"model": ...} alone; and "facts": {name: value} on
// top. invalid_value names an unknown fact or one of another type as "facts.<name>".
Result<ExplainQuestion> parse_explain_request(std::string_view body);

}  // namespace flyball::api
