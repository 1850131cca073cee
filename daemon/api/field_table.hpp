// The fields of an API's requests: served, accepted without an effect, or refused, and why. Each API has a
// table. Requests are read by it (Fields), and a test checks the API's document against it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/capabilities.hpp"
#include "config/packed_json.hpp"

namespace flyball::api {

struct Parameter;

// A set of an API's endpoints. Each API has bits of its own.
using Endpoints = std::uint8_t;

// The objects of a request whose members are known by name. The members of all others (a schema, template
// variables, metadata) are the client's own.
enum class FieldOf : std::uint8_t {
  body,
  stream_options,
  response_format,
  json_schema,         // `json_schema` of response_format
  structured_outputs,  // vLLM's
  options,             // Ollama's
  message,
  part,             // of a message's content
  call,             // of a message's tool_calls
  called_function,  // `function` of a call
  tool,
  tool_function,  // `function` of a tool
  tool_choice,
  chosen_function,  // `function` of tool_choice
  allowed_tools,    // `allowed_tools` of tool_choice
  allowed_tool,     // of a tool_choice of OpenAI's responses
  tool_namespace,   // among the tools of OpenAI's responses
  thinking,         // Anthropic's, as the next two
  output_config,
  output_format,  // also `format` of output_config
  input_message,  // items in `input` of OpenAI's responses, as the next four
  input_call,
  input_result,
  input_reasoning,
  input_part,  // of such an item's content, output or summary
  text,        // OpenAI's responses', as the next two
  text_format,
  reasoning,
};
// "body", "stream_options", "messages[]", "messages[].content[]", ...: for the documents.
std::string_view to_string(FieldOf of) noexcept;

enum class FieldUse : std::uint8_t {
  served,    // read by the parser, or passed to the model's chat template
  accepted,  // without an effect on the answer
  refused,   // with unsupported_value, for every value but those that ask for nothing
};
std::string_view to_string(FieldUse use) noexcept;  // "served"

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
bool asks_for_nothing(const FieldGroup& field, JsonView value);

class FieldTable {
 public:
  struct Path {
    Endpoints endpoint;
    std::string_view path;  // "/v1/chat/completions"
  };
  // All three outlive the table. Parameters are served fields that `groups` does not list.
  FieldTable(std::span<const FieldGroup> groups, std::span<const Parameter> parameters,
             std::span<const Path> paths);

  std::span<const FieldGroup> groups() const noexcept { return groups_; }
  std::span<const Parameter> parameters() const noexcept { return parameters_; }
  std::span<const Path> paths() const noexcept { return paths_; }

  // The group of the field at an endpoint, or at one of several. nullptr: it is unknown there.
  const FieldGroup* find(FieldOf of, Endpoints endpoints, std::string_view name) const noexcept;
  // The names that may be sent there, those that are served first.
  std::vector<std::string_view> names(FieldOf of, Endpoints endpoints) const;

 private:
  struct Entry {
    FieldOf of;
    std::string_view name;
    const FieldGroup* group;
  };

  std::span<const FieldGroup> groups_;
  std::span<const Parameter> parameters_;
  std::span<const Path> paths_;
  std::deque<FieldGroup> of_parameters_;
  std::vector<Entry> entries_;  // by object and name
};

}  // namespace flyball::api
