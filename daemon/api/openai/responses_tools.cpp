#include "daemon/api/openai/responses_tools.hpp"

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "config/name_list.hpp"
#include "daemon/api/field_error.hpp"
#include "daemon/api/json_rewriter.hpp"
#include "daemon/api/openai/responses_fields.hpp"

namespace flyball::api::openai::responses {
namespace {

struct Tool {
  JsonView json;
  std::string_view name;
  bool is_strict = false;
  bool is_allowed = true;
};
struct Tools {
  std::vector<Tool> all;
  std::unordered_map<std::string_view, std::size_t> by_name;  // places in `all`
};

std::unexpected<Error> no_function(std::string_view type, const std::string& place) {
  return field_error(ErrorCode::unsupported_feature, place + ".type",
                     "is " + config::quoted(type) +
                         ", but is served as \"function\" only: a tool is one that the client describes and "
                         "runs");
}

Result<Tool> read_tool(JsonView json, const std::string& place, UnknownFields& unknown) {
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
  return Tool{json, name.text(), strict && strict.as_bool()};
}

Result<Tools> read_list(JsonView list, UnknownFields& unknown) {
  Tools out;
  if (!list) return out;
  if (!list.is_array()) return field_error(ErrorCode::invalid_value, "tools", "must be an array");
  for (const auto& [key, json] : list.members()) {
    const std::string place = "tools[" + std::to_string(out.all.size()) + "]";
    auto tool = read_tool(json, place, unknown);
    if (!tool) return pass(tool);
    if (!out.by_name.emplace(tool->name, out.all.size()).second)
      return field_error(ErrorCode::invalid_value, place + ".name",
                         "is " + config::quoted(tool->name) + ", which is another tool's name");
    out.all.push_back(*tool);
  }
  return out;
}

// The tool of {"type": "function", "name"}.
Result<Tool*> find_tool(JsonView wanted, const std::string& place, Tools& tools) {
  const JsonView type = wanted.is_object() ? wanted.find("type") : JsonView();
  if (!type.is_string())
    return field_error(ErrorCode::invalid_value, place, "must be an object with a 'type'");
  if (type.text() != "function") return no_function(type.text(), place);
  const JsonView name = wanted.member("name");
  if (!name) return field_error(ErrorCode::missing_field, place + ".name", "is required");
  if (!name.is_string()) return field_error(ErrorCode::invalid_value, place + ".name", "must be a string");
  const auto found = tools.by_name.find(name.text());
  if (found == tools.by_name.end())
    return field_error(ErrorCode::invalid_value, place + ".name",
                       "is " + config::quoted(name.text()) + ", which is none of 'tools'");
  return &tools.all[found->second];
}

// {"type": "allowed_tools", "mode": "auto" or "required", "tools": [...]}.
Result<void> read_allowed(JsonView choice, Tools& tools, ToolSet& set, UnknownFields& unknown) {
  const JsonView mode = choice.member("mode"), list = choice.member("tools");
  if (!mode.is_string() || (mode.text() != "auto" && mode.text() != "required"))
    return field_error(ErrorCode::invalid_value, "tool_choice.mode", "must be auto or required");
  if (!list.is_array() || list.size() == 0)
    return field_error(ErrorCode::invalid_value, "tool_choice.tools",
                       "must be an array with at least one tool");
  for (Tool& tool : tools.all) tool.is_allowed = false;
  std::size_t i = 0;
  for (const auto& [key, wanted] : list.members()) {
    const std::string place = "tool_choice.tools[" + std::to_string(i++) + "]";
    auto tool = find_tool(wanted, place, tools);
    if (!tool) return pass(tool);
    if (auto ok = check_members(wanted, field_table(), FieldOf::allowed_tool, kCreate, place, unknown); !ok)
      return ok;
    (*tool)->is_allowed = true;
  }
  if (mode.text() == "required") set.choice = ToolSet::Choice::required;
  return {};
}

Result<void> read_choice(JsonView choice, Tools& tools, ToolSet& set, UnknownFields& unknown) {
  if (choice.is_string()) {
    if (choice.text() == "none")
      set.choice = ToolSet::Choice::none;
    else if (choice.text() == "required")
      set.choice = ToolSet::Choice::required;
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
    if (type.text() == "allowed_tools") return read_allowed(choice, tools, set, unknown);
    auto tool = find_tool(choice, "tool_choice", tools);
    if (!tool) return pass(tool);
    set.choice = ToolSet::Choice::required;
    set.named = (*tool)->name;
  }
  if (set.choice == ToolSet::Choice::required && tools.all.empty())
    return field_error(ErrorCode::invalid_value, "tool_choice", "demands a call, and there are no 'tools'");
  return {};
}

// In the form of every API.
void write_tool(JsonView tool, JsonRewriter& out) {
  out.open(JsonKind::object);
  out.key("type");
  out.string("function");
  out.key("function");
  out.open(JsonKind::object);
  for (const std::string_view name : {"name", "description", "parameters"})
    if (const JsonView value = tool.member(name)) {
      out.key(name);
      out.value(value);
    }
  out.close();
  out.close();
}

}  // namespace

Result<ReadTools> read_tools(const Fields& body, UnknownFields& unknown) {
  const JsonView list = body.member("tools"), choice = body.member("tool_choice"),
                 parallel = body.member("parallel_tool_calls");
  auto tools = read_list(list, unknown);
  if (!tools) return pass(tools);
  auto set = std::make_shared<ToolSet>();
  set->schema_member = "parameters";
  if (choice)
    if (auto ok = read_choice(choice, *tools, *set, unknown); !ok) return pass(ok);
  if (parallel && !parallel.is_boolean())
    return field_error(ErrorCode::invalid_value, "parallel_tool_calls", "must be a boolean");
  ReadTools out;
  out.parallel = set->parallel = !parallel || parallel.as_bool();
  if (tools->all.empty() || set->choice == ToolSet::Choice::none) return out;
  JsonRewriter written(list.bytes().size());
  written.open(JsonKind::array);
  for (std::size_t i = 0; i < tools->all.size(); ++i) {
    const Tool& tool = tools->all[i];
    if (!tool.is_allowed) continue;
    write_tool(tool.json, written);
    set->positions.push_back(i);
    out.strict.push_back(tool.is_strict);
    set->strict = set->strict || tool.is_strict;
  }
  written.close();
  set->tools = written.take();
  out.set = std::move(set);
  return out;
}

}  // namespace flyball::api::openai::responses
