#include "daemon/api/openai/tool_choice.hpp"

#include <string>
#include <string_view>
#include <utility>

#include "daemon/api/chat_messages.hpp"
#include "daemon/api/declared_tools.hpp"
#include "daemon/api/field_error.hpp"
#include "daemon/api/openai/field_table.hpp"

namespace flyball::api::openai {
namespace {

// The index of the tool of {"type": "function", "function": {"name"}}. `of`: the table's members of
// `function`.
Result<std::size_t> chosen_tool(JsonView one, const std::string& place, FieldOf of,
                                const DeclaredTools& declared, UnknownFields& unknown) {
  const JsonView type = one.is_object() ? one.member("type") : JsonView();
  if (!type.is_string())
    return field_error(ErrorCode::invalid_value, place, "must be an object with a 'type'");
  if (type.text() != "function")
    return field_error(ErrorCode::unsupported_value, place + ".type", "is served as 'function' only");
  const JsonView function = one.member("function");
  const JsonView name = function.is_object() ? function.member("name") : JsonView();
  if (!name.is_string())
    return field_error(ErrorCode::invalid_value, place + ".function", "must be an object with a 'name'");
  if (auto ok = check_members(function, field_table(), of, kChat, place + ".function", unknown); !ok)
    return pass(ok);
  const auto found = declared.find(name.text());
  if (!found)
    return field_error(ErrorCode::invalid_value, place + ".function.name",
                       "is the name of none of the tools");
  return *found;
}

// {"mode": "auto" or "required", "tools": [...]}. A client may repeat whole tools there; their names alone
// count.
Result<void> read_allowed(JsonView allowed, const DeclaredTools& declared, ToolChoice& out,
                          UnknownFields& unknown) {
  const std::string place = "tool_choice.allowed_tools";
  if (!allowed.is_object()) return field_error(ErrorCode::invalid_value, place, "must be an object");
  if (auto ok = check_members(allowed, field_table(), FieldOf::allowed_tools, kChat, place, unknown); !ok)
    return ok;
  const JsonView mode = allowed.member("mode");
  if (!mode.is_string() || (mode.text() != "auto" && mode.text() != "required"))
    return field_error(ErrorCode::invalid_value, place + ".mode", "must be 'auto' or 'required'");
  const JsonView list = allowed.member("tools");
  if (!list.is_array() || list.size() == 0)
    return field_error(ErrorCode::invalid_value, place + ".tools", "must be an array with at least one tool");
  out.allowed.assign(declared.all().size(), false);
  std::size_t i = 0;
  for (const auto& [key, one] : list.members()) {
    const std::string here = place + ".tools[" + std::to_string(i++) + "]";
    auto tool = chosen_tool(one, here, FieldOf::tool_function, declared, unknown);
    if (!tool) return pass(tool);
    if (auto ok = check_members(one, field_table(), FieldOf::tool, kChat, here, unknown); !ok) return ok;
    out.allowed[*tool] = true;
  }
  out.choice = mode.text() == "required" ? ToolSet::Choice::required : ToolSet::Choice::automatic;
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
                         "must be 'none', 'auto', 'required' or an object");
  } else {
    const JsonView type = choice.is_object() ? choice.member("type") : JsonView();
    if (!type.is_string())
      return field_error(ErrorCode::invalid_value, "tool_choice",
                         "must be a string, or an object with a 'type'");
    if (auto ok = check_members(choice, field_table(), FieldOf::tool_choice, kChat, "tool_choice", unknown);
        !ok)
      return ok;
    if (type.text() == "allowed_tools")
      return read_allowed(choice.member("allowed_tools"), declared, out, unknown);
    if (type.text() != "function")
      return field_error(ErrorCode::unsupported_value, "tool_choice.type",
                         "is served as 'function' or 'allowed_tools' only");
    auto tool = chosen_tool(choice, "tool_choice", FieldOf::chosen_function, declared, unknown);
    if (!tool) return pass(tool);
    out.choice = ToolSet::Choice::required;
    out.named = declared.all()[*tool].name;
  }
  if (lacks_demanded_tools(declared, out))
    return field_error(ErrorCode::invalid_value, "tool_choice", "demands a call, and there are no 'tools'");
  return {};
}

// The tools that ask for exact arguments. Clients of other APIs say so in the tool itself.
Result<void> read_strict(JsonView tools, DeclaredTools& declared) {
  std::size_t i = 0;
  for (const auto& [key, tool] : tools.members()) {
    const std::size_t index = i++;
    const std::string place = "tools[" + std::to_string(index) + "]";
    const JsonView of_tool = tool.member("strict"), of_function = tool.find("function").member("strict");
    if (of_tool && !of_tool.is_boolean())
      return field_error(ErrorCode::invalid_value, place + ".strict", "must be a boolean");
    if (of_function && !of_function.is_boolean())
      return field_error(ErrorCode::invalid_value, place + ".function.strict", "must be a boolean");
    if ((of_tool && of_tool.as_bool()) || (of_function && of_function.as_bool())) declared.set_strict(index);
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const ToolSet>> read_tool_set(const Fields& body, UnknownFields& unknown) {
  DeclaredTools declared;
  if (const JsonView tools = body.member("tools")) {
    auto read = read_tools(tools, field_table(), kChat, unknown);
    if (!read) return pass(read);
    declared = std::move(*read);
    if (auto ok = read_strict(tools, declared); !ok) return pass(ok);
  }
  ToolChoice wish;
  if (const JsonView choice = body.member("tool_choice"))
    if (auto ok = read_choice(choice, declared, wish, unknown); !ok) return pass(ok);
  if (const JsonView parallel = body.member("parallel_tool_calls")) {
    if (!parallel.is_boolean())
      return field_error(ErrorCode::invalid_value, "parallel_tool_calls", "must be a boolean");
    wish.parallel = parallel.as_bool();
  }
  return choose_tools(std::move(declared), wish, "function.parameters");
}

}  // namespace flyball::api::openai
