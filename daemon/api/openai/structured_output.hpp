// The fields of a request that constrain its answer: OpenAI's response_format, and those of vLLM, llama.cpp's
// server and SGLang. Pure; a constraint is compiled later (daemon/api/constraint_verdicts).
#pragma once

#include <optional>
#include <string>

#include "backends/constraint.hpp"
#include "config/error.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api::openai {

struct StructuredOutput {
  std::optional<Constraint> constraint;
  std::string field;  // the constraint's place: "response_format.json_schema.schema"
};

// invalid_value, missing_field, unsupported_value (also for a constraint longer than a compiler reads:
// constrain::check_size), unsupported_feature, and the errors of read_packed for a schema in a string.
// invalid_value also for two constraints in one request: the message names both fields.
// Unknown members of the fields are noted.
Result<StructuredOutput> read_structured_output(const Fields& body, UnknownFields& unknown);

}  // namespace flyball::api::openai
