#include "daemon/api/openai/tool_choice.hpp"

#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "daemon/api/chat_messages.hpp"
#include "daemon/api/field_error.hpp"
#include "daemon/api/json_rewriter.hpp"
#include "daemon/api/openai/field_table.hpp"

namespace flyball::api::openai {
namespace {

std::string_view name_of_tool(JsonView tool) noexcept {
  return tool.find("function").find("name").text();
}

using Names = std::unordered_set<std::string_view>;

Names names_of(const PackedJson& tools) {
  Names out;
  if (tools.empty()) return out;
  for (const auto& [key, tool] : tools.view().members()) out.insert(name_of_tool(tool));
  return out;
}

// The name in {"type": "function", "function": {"name"}}, which is one of the tools. `of`: the table's
// members of `function`.
Result<std::string_view> chosen_name(JsonView one, const std::string& place, FieldOf of, const Names& tools,
                                     UnknownFields& unknown) {
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
  if (!tools.contains(name.text()))
    return field_error(ErrorCode::invalid_value, place + ".function.name",
                       "is the name of none of the tools");
  return name.text();
}

// {"mode": "auto" or "required", "tools": [...]}. A client may repeat whole tools there; their names alone
// count.
Result<void> read_allowed(JsonView allowed, ToolSet& out, const Names& known, UnknownFields& unknown) {
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
  Names names;
  std::size_t i = 0;
  for (const auto& [key, one] : list.members()) {
    const std::string here = place + ".tools[" + std::to_string(i++) + "]";
    auto name = chosen_name(one, here, FieldOf::tool_function, known, unknown);
    if (!name) return pass(name);
    if (auto ok = check_members(one, field_table(), FieldOf::tool, kChat, here, unknown); !ok) return ok;
    names.insert(*name);
  }
  JsonRewriter kept(out.tools.bytes().size());
  kept.open(JsonKind::array);
  std::size_t position = 0;
  for (const auto& [key, tool] : out.tools.view().members()) {
    if (names.contains(name_of_tool(tool))) {
      kept.value(tool);
      out.positions.push_back(position);
    }
    ++position;
  }
  kept.close();
  out.tools = kept.take();
  out.choice = mode.text() == "required" ? ToolSet::Choice::required : ToolSet::Choice::automatic;
  return {};
}

Result<void> read_choice(JsonView choice, ToolSet& out, UnknownFields& unknown) {
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
    const Names known = names_of(out.tools);
    if (type.text() == "allowed_tools")
      return read_allowed(choice.member("allowed_tools"), out, known, unknown);
    if (type.text() != "function")
      return field_error(ErrorCode::unsupported_value, "tool_choice.type",
                         "is served as 'function' or 'allowed_tools' only");
    auto name = chosen_name(choice, "tool_choice", FieldOf::chosen_function, known, unknown);
    if (!name) return pass(name);
    out.choice = ToolSet::Choice::required;
    out.named = *name;
  }
  if (out.choice == ToolSet::Choice::required && out.tools.empty())
    return field_error(ErrorCode::invalid_value, "tool_choice", "demands a call, and there are no 'tools'");
  return {};
}

// The tools that ask for exact arguments. Clients of other APIs say so in the tool itself.
Result<Names> strict_names(JsonView tools) {
  Names out;
  std::size_t i = 0;
  for (const auto& [key, tool] : tools.members()) {
    const std::string place = "tools[" + std::to_string(i++) + "]";
    const JsonView of_tool = tool.member("strict"), of_function = tool.find("function").member("strict");
    if (of_tool && !of_tool.is_boolean())
      return field_error(ErrorCode::invalid_value, place + ".strict", "must be a boolean");
    if (of_function && !of_function.is_boolean())
      return field_error(ErrorCode::invalid_value, place + ".function.strict", "must be a boolean");
    if ((of_tool && of_tool.as_bool()) || (of_function && of_function.as_bool()))
      out.insert(name_of_tool(tool));
  }
  return out;
}

}  // namespace

Result<std::shared_ptr<const ToolSet>> read_tool_set(const Fields& body, UnknownFields& unknown) {
  auto out = std::make_shared<ToolSet>();
  Names strict;
  if (const JsonView tools = body.member("tools")) {
    auto read = read_tools(tools, field_table(), kChat, unknown);
    if (!read) return pass(read);
    out->tools = std::move(*read);
    auto asked = strict_names(tools);
    if (!asked) return pass(asked);
    strict = std::move(*asked);
  }
  if (const JsonView choice = body.member("tool_choice"))
    if (auto ok = read_choice(choice, *out, unknown); !ok) return pass(ok);
  if (const JsonView parallel = body.member("parallel_tool_calls")) {
    if (!parallel.is_boolean())
      return field_error(ErrorCode::invalid_value, "parallel_tool_calls", "must be a boolean");
    out->parallel = parallel.as_bool();
  }
  if (out->tools.empty() || out->choice == ToolSet::Choice::none) return nullptr;
  for (const std::string_view name : names_of(out->tools)) out->strict = out->strict || strict.contains(name);
  return out;
}

}  // namespace flyball::api::openai
