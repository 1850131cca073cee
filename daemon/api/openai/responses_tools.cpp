#include "daemon/api/openai/responses_tools.hpp"

#include <string>
#include <string_view>
#include <utility>

#include "config/name_list.hpp"
#include "daemon/api/declared_tools.hpp"
#include "daemon/api/field_error.hpp"
#include "daemon/api/json_rewriter.hpp"
#include "daemon/api/openai/responses_fields.hpp"

namespace flyball::api::openai::responses {
namespace {

std::unexpected<Error> no_function(std::string_view type, const std::string& place) {
  return field_error(ErrorCode::unsupported_feature, place + ".type",
                     "is " + config::quoted(type) +
                         ", but is served as \"function\" only: a tool is one that the client describes and "
                         "runs");
}

// Appends the tool in the form of every API.
Result<void> read_tool(JsonView json, const std::string& place, UnknownFields& unknown,
                       DeclaredTools& declared, JsonRewriter& out) {
  const JsonView type = json.is_object() ? json.find("type") : JsonView();
  if (!type.is_string())
    return field_error(ErrorCode::invalid_value, place, "must be an object with a 'type'");
  if (type.text() != "function") return no_function(type.text(), place);
  if (auto ok = check_members(json, field_table(), FieldOf::tool, kCreate, place, unknown); !ok)
    return pass(ok);
  const JsonView name = json.member("name"), description = json.member("description"),
                 parameters = json.member("parameters"), strict = json.member("strict");
  if (!name) return field_error(ErrorCode::missing_field, place + ".name", "is required");
  if (!name.is_string() || !is_tool_name(name.text()))
    return field_error(ErrorCode::invalid_value, place + ".name", std::string(kToolNameRule));
  if (description && !description.is_string())
    return field_error(ErrorCode::invalid_value, place + ".description", "must be a string");
  if (parameters && !parameters.is_object())
    return field_error(ErrorCode::invalid_value, place + ".parameters", "must be a JSON schema, an object");
  if (strict && !strict.is_boolean())
    return field_error(ErrorCode::invalid_value, place + ".strict", "must be a boolean");
  if (!declared.add(name.text(), strict && strict.as_bool()))
    return field_error(ErrorCode::invalid_value, place + ".name",
                       "is " + config::quoted(name.text()) + ", which is another tool's name");
  write_tool(out, name, description, parameters);
  return {};
}

Result<DeclaredTools> read_list(JsonView list, UnknownFields& unknown) {
  DeclaredTools out;
  if (!list) return out;
  if (!list.is_array()) return field_error(ErrorCode::invalid_value, "tools", "must be an array");
  JsonRewriter written(list.bytes().size());
  written.open(JsonKind::array);
  for (const auto& [key, json] : list.members()) {
    const std::string place = "tools[" + std::to_string(out.all().size()) + "]";
    if (auto ok = read_tool(json, place, unknown, out, written); !ok) return pass(ok);
  }
  written.close();
  out.json = written.take();
  return out;
}

// The index of the tool of {"type": "function", "name"}.
Result<std::size_t> find_tool(JsonView wanted, const std::string& place, const DeclaredTools& declared) {
  const JsonView type = wanted.is_object() ? wanted.find("type") : JsonView();
  if (!type.is_string())
    return field_error(ErrorCode::invalid_value, place, "must be an object with a 'type'");
  if (type.text() != "function") return no_function(type.text(), place);
  const JsonView name = wanted.member("name");
  if (!name) return field_error(ErrorCode::missing_field, place + ".name", "is required");
  if (!name.is_string()) return field_error(ErrorCode::invalid_value, place + ".name", "must be a string");
  const auto found = declared.find(name.text());
  if (!found)
    return field_error(ErrorCode::invalid_value, place + ".name",
                       "is " + config::quoted(name.text()) + ", which is none of 'tools'");
  return *found;
}

// {"type": "allowed_tools", "mode": "auto" or "required", "tools": [...]}.
Result<void> read_allowed(JsonView choice, const DeclaredTools& declared, ToolChoice& out,
                          UnknownFields& unknown) {
  const JsonView mode = choice.member("mode"), list = choice.member("tools");
  if (!mode.is_string() || (mode.text() != "auto" && mode.text() != "required"))
    return field_error(ErrorCode::invalid_value, "tool_choice.mode", "must be auto or required");
  if (!list.is_array() || list.size() == 0)
    return field_error(ErrorCode::invalid_value, "tool_choice.tools",
                       "must be an array with at least one tool");
  out.allowed.assign(declared.all().size(), false);
  std::size_t i = 0;
  for (const auto& [key, wanted] : list.members()) {
    const std::string place = "tool_choice.tools[" + std::to_string(i++) + "]";
    auto tool = find_tool(wanted, place, declared);
    if (!tool) return pass(tool);
    if (auto ok = check_members(wanted, field_table(), FieldOf::allowed_tool, kCreate, place, unknown); !ok)
      return ok;
    out.allowed[*tool] = true;
  }
  if (mode.text() == "required") out.choice = ToolSet::Choice::required;
  return {};
}

Result<void> read_choice(JsonView choice, const DeclaredTools& declared, ToolChoice& out,
                         UnknownFields& unknown) {
  if (choice.is_string()) {
    if (choice.text() == "none")
      out.choice = ToolSet::Choice::none;
    else if (choice.text() == "required")
      out.choice = ToolSet::Choice::required;
    else if (choice.text() != "auto")
      return field_error(ErrorCode::invalid_value, "tool_choice",
                         "must be none, auto, required or an object");
  } else {
    const JsonView type = choice.is_object() ? choice.find("type") : JsonView();
    if (!type.is_string())
      return field_error(ErrorCode::invalid_value, "tool_choice",
                         "must be a string, or an object with a 'type'");
    if (auto ok = check_members(choice, field_table(), FieldOf::tool_choice, kCreate, "tool_choice", unknown);
        !ok)
      return ok;
    if (type.text() == "allowed_tools") return read_allowed(choice, declared, out, unknown);
    auto tool = find_tool(choice, "tool_choice", declared);
    if (!tool) return pass(tool);
    out.choice = ToolSet::Choice::required;
    out.named = declared.all()[*tool].name;
  }
  if (lacks_demanded_tools(declared, out))
    return field_error(ErrorCode::invalid_value, "tool_choice", "demands a call, and there are no 'tools'");
  return {};
}

}  // namespace

Result<ReadTools> read_tools(const Fields& body, UnknownFields& unknown) {
  const JsonView choice = body.member("tool_choice"), parallel = body.member("parallel_tool_calls");
  auto declared = read_list(body.member("tools"), unknown);
  if (!declared) return pass(declared);
  ToolChoice wish;
  if (choice)
    if (auto ok = read_choice(choice, *declared, wish, unknown); !ok) return pass(ok);
  if (parallel && !parallel.is_boolean())
    return field_error(ErrorCode::invalid_value, "parallel_tool_calls", "must be a boolean");
  wish.parallel = !parallel || parallel.as_bool();
  ReadTools out;
  out.parallel = wish.parallel;
  for (std::size_t i = 0; i < declared->all().size(); ++i)
    if (wish.allowed.empty() || wish.allowed[i]) out.strict.push_back(declared->all()[i].strict);
  out.set = choose_tools(*std::move(declared), wish, "parameters");
  return out;
}

}  // namespace flyball::api::openai::responses
