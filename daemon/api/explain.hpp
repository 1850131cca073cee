// Small pieces of the routes that answer at once: the question of POST /v1/route/explain and the model
// objects.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.hpp"
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

// {"id","object":"model","created","owned_by"}
void append_model(std::string& out, const config::ModelEntry& model, std::int64_t created);

}  // namespace flyball::api
