// The one table of a request's fields beside the scalar parameters: which are served, accepted without an
// effect, or refused, and why. Requests are read by it (Fields), and docs/http-api.md is checked against it
// by a test.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/capabilities.hpp"
#include "config/packed_json.hpp"
#include "daemon/api/openai/parameters.hpp"

namespace flyball::api::openai {

// The objects of a request whose members are known by name. The members of all others (a schema, template
// variables, metadata) are the client's own.
enum class FieldOf : std::uint8_t {
  body,
  stream_options,
  response_format,
  json_schema,         // `json_schema` of response_format
  structured_outputs,  // vLLM's
  message,
  part,             // of a message's content
  call,             // of a message's tool_calls
  called_function,  // `function` of a call
  tool,
  tool_function,  // `function` of a tool
};

enum class FieldUse : std::uint8_t {
  served,    // read by the parser, or passed to the model's chat template
  accepted,  // without an effect on the answer
  refused,   // with unsupported_value, for every value but those that ask for nothing
};

// Fields that are treated alike.
struct FieldGroup {
  FieldOf of;
  Endpoints endpoints;
  FieldUse use;
  std::string_view names;  // separated by blanks
  // An accepted field: why it has no effect. A refused one: the text behind its name in the error, "is not
  // served".
  std::string_view note = {};
  // A refused field's values that ask for nothing, beside null: a JSON array.
  std::string_view asks_for_nothing = "[]";
  // The feature that a refused field asks for. Without a note of its own the field has the capability
  // table's.
  std::optional<config::Feature> feature = {};
};
// The note, or the capability table's.
std::string note_of(const FieldGroup& group);

// Without the parameters of the body: parameters() lists them.
std::span<const FieldGroup> field_groups() noexcept;

// The group of the field at an endpoint, or at one of several. nullptr: it is unknown there.
const FieldGroup* find_field(FieldOf of, Endpoints endpoints, std::string_view name) noexcept;
// The names that may be sent there, those that are served first.
std::vector<std::string_view> field_names(FieldOf of, Endpoints endpoints);
bool asks_for_nothing(const FieldGroup& field, JsonView value);

// "body", "stream_options", "messages[]", "messages[].content[]", ...: for the documents.
std::string_view to_string(FieldOf of) noexcept;
std::string_view to_string(FieldUse use) noexcept;  // "served"

}  // namespace flyball::api::openai
