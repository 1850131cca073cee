// The constraint that holds a model to calls of tools, in the words of its format.
#pragma once

#include <optional>

#include "backends/answer_form.hpp"
#include "config/error.hpp"
#include "daemon/api/call_constraint.hpp"
#include "daemon/api/tool_set.hpp"

namespace flyball::api::calls {

// Required calls: the answer is calls (of harmony behind reasoning, if it reasons); one call where the tools
// are not parallel or one is named. Strict ones that the model decides about: free text with calls in it;
// where the format marks calls by nothing, calls or text that does not begin as one. With `json`, which goes
// with calls that the model decides about: calls as where they are required, or that JSON.
// nullopt: nothing is constrained. Arguments are what the tools' parameters allow; of XML, parameters in the
// order of the schema. unsupported_feature, naming the tool and the place of its schema, or the remedy, for
// what the format cannot express.
Result<std::optional<CallConstraint>> call_constraint(const ToolSet& tools, const AnswerForm& form,
                                                      const JsonAnswer& json = {});

}  // namespace flyball::api::calls
