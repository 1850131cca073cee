#include "daemon/api/anthropic/tools.hpp"

#include <string>
#include <string_view>
#include <utility>

#include "config/name_list.hpp"
#include "daemon/api/anthropic/field_table.hpp"
#include "daemon/api/declared_tools.hpp"
#include "daemon/api/field_error.hpp"
#include "daemon/api/json_rewriter.hpp"

namespace flyball::api::anthropic {
namespace {

Result<bool> read_flag(JsonView object, std::string_view name, const std::string& place) {
  const JsonView value = object.member(name);
  if (!value) return false;
  if (!value.is_boolean())
    return field_error(ErrorCode::invalid_value, place + "." + std::string(name), "must be a boolean");
  return value.as_bool();
}

// Appends the tool in the form of every API.
Result<void> read_tool(JsonView tool, const std::string& place, UnknownFields& unknown,
                       DeclaredTools& declared, JsonRewriter& out) {
  if (!tool.is_object()) return field_error(ErrorCode::invalid_value, place, "must be an object");
  if (const JsonView type = tool.member("type"); type && !(type.is_string() && type.text() == "custom"))
    return field_error(ErrorCode::unsupported_value, place + ".type",
                       "is served as \"custom\" only" +
                           (type.is_string() ? ", not " + config::quoted(type.text()) : std::string()) +
                           ": a tool is one that the client describes and runs");
  if (auto ok = check_members(tool, field_table(), FieldOf::tool, kBoth, place, unknown); !ok) return ok;
  const JsonView description = tool.member("description"), schema = tool.member("input_schema");
  const auto name = read_tool_name(tool, place);
  if (!name) return pass(name);
  if (declared.find(*name))
    return field_error(ErrorCode::invalid_value, place + ".name",
                       "is " + config::quoted(*name) + ", which is another tool's name");
  if (description && !description.is_string())
    return field_error(ErrorCode::invalid_value, place + ".description", "must be a string");
  if (!schema) return field_error(ErrorCode::missing_field, place + ".input_schema", "is required");
  if (!schema.is_object())
    return field_error(ErrorCode::invalid_value, place + ".input_schema", "must be a JSON schema, an object");
  const auto strict = read_flag(tool, "strict", place);
  if (!strict) return pass(strict);
  declared.add(*name, *strict);
  write_tool(out, *name, description ? std::optional(description.text()) : std::nullopt, schema);
  return {};
}

// `tool_choice`, which has what OpenAI's `parallel_tool_calls` says, too.
Result<ToolChoice> read_choice(JsonView choice, UnknownFields& unknown, const DeclaredTools& declared) {
  ToolChoice out;
  if (!choice) return out;
  const JsonView type = choice.is_object() ? choice.find("type") : JsonView();
  if (!type.is_string())
    return field_error(ErrorCode::invalid_value, "tool_choice", "must be an object with a 'type'");
  if (auto ok = check_members(choice, field_table(), FieldOf::tool_choice, kBoth, "tool_choice", unknown);
      !ok)
    return pass(ok);
  if (type.text() == "none")
    out.choice = ToolSet::Choice::none;
  else if (type.text() == "any" || type.text() == "tool")
    out.choice = ToolSet::Choice::required;
  else if (type.text() != "auto")
    return field_error(ErrorCode::invalid_value, "tool_choice.type", "must be auto, any, tool or none");
  const auto alone = read_flag(choice, "disable_parallel_tool_use", "tool_choice");
  if (!alone) return pass(alone);
  out.parallel = !*alone;
  if (type.text() == "tool") {
    const JsonView name = choice.member("name");
    if (!name) return field_error(ErrorCode::missing_field, "tool_choice.name", "is required");
    if (!name.is_string())
      return field_error(ErrorCode::invalid_value, "tool_choice.name", "must be a string");
    if (!declared.find(name.text()))
      return field_error(ErrorCode::invalid_value, "tool_choice.name",
                         "is " + config::quoted(name.text()) + ", which is none of 'tools'");
    out.named = name.text();
  }
  if (lacks_demanded_tools(declared, out))
    return field_error(ErrorCode::invalid_value, "tool_choice", "asks for a call, and there are no 'tools'");
  return out;
}

}  // namespace

Result<std::shared_ptr<const ToolSet>> read_tool_set(const Fields& body, UnknownFields& unknown) {
  const JsonView tools = body.member("tools");
  if (tools && !tools.is_array()) return field_error(ErrorCode::invalid_value, "tools", "must be an array");
  DeclaredTools declared;
  JsonRewriter out(tools ? tools.bytes().size() : 0);
  out.open(JsonKind::array);
  if (tools)
    for (const auto& [key, tool] : tools.members()) {
      const std::string place = "tools[" + std::to_string(declared.all().size()) + "]";
      if (auto ok = read_tool(tool, place, unknown, declared, out); !ok) return pass(ok);
    }
  out.close();
  declared.json = out.take();
  const auto choice = read_choice(body.member("tool_choice"), unknown, declared);
  if (!choice) return pass(choice);
  return choose_tools(std::move(declared), *choice, "input_schema");
}

}  // namespace flyball::api::anthropic
