// The tools of a response's body, and its client's wish to have them called.
#pragma once

#include <memory>
#include <vector>

#include "config/error.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/openai/responses_namespaces.hpp"
#include "daemon/api/tool_set.hpp"

namespace flyball::api::openai::responses {

struct ReadTools {
  // Null where the answer may call none: there are no tools, or the choice is "none". An `allowed_tools`
  // choice leaves the allowed tools alone.
  std::shared_ptr<const ToolSet> set;
  std::vector<bool> strict;  // for each tool of the set, as namespace_json
  // The namespace of the body in which the tool stands; absent: it stands in none.
  std::vector<JsonView> namespace_json;
  Namespaces namespaces;
  bool parallel = true;
};

// `tools`, `tool_choice` and `parallel_tool_calls`. A tool without `strict` is not strict: a schema that was
// not written for strict calls may have parts that cannot be enforced. missing_field, invalid_value,
// unsupported_value and unsupported_feature name the field ("tools[2].name"). `unknown`: gets the members of
// tools and of the choice that the table of fields lacks. A tool in a namespace has its joined name in the
// set; the first one that the choice allows has the namespace's description before its own.
Result<ReadTools> read_tools(const Fields& body, UnknownFields& unknown);

}  // namespace flyball::api::openai::responses
