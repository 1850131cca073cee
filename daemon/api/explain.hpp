// What a client asks POST /v1/route/explain, and the traits of a request that the policy looks at. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/api/completion_request.hpp"
#include "daemon/route/facts.hpp"
#include "policy/fact_json.hpp"

namespace flyball::api {

route::RequestTraits traits_of(const InferenceRequest& request);

struct ExplainQuestion {
  route::RequestTraits traits;
  std::vector<policy::NamedFact> overrides;
};
// A chat or completion body as its endpoint takes it, or {"model": ...} alone; and "facts": {name: value} on
// top. invalid_value (policy::read_fact) names the fact as "facts.<name>".
Result<ExplainQuestion> parse_explain_request(std::string_view body, const policy::TargetCatalogue& targets);

}  // namespace flyball::api
