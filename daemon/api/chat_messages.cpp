#include "daemon/api/chat_messages.hpp"

#include <string>
#include <string_view>
#include <utility>

#include "daemon/api/field_error.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/json_rewriter.hpp"
#include "daemon/api/tool_set.hpp"

namespace flyball::api {
namespace {

// Fields accepted without an effect have none in the prompt either. Unknown fields are there by the app's
// wish.
bool is_for_template(const FieldTable& table, FieldOf of, Endpoints endpoints,
                     std::string_view name) noexcept {
  const FieldGroup* const field = table.find(of, endpoints, name);
  return field == nullptr || field->use == FieldUse::served;
}

FieldOf field_of(HistoryObject of) noexcept {
  return of == HistoryObject::message ? FieldOf::message
         : of == HistoryObject::call  ? FieldOf::call
                                      : FieldOf::called_function;
}

// Tools without members that are null, which templates would print, or that are not for them: of a tool and
// of its function. What stands in a schema is its author's. `strict` is the daemon's to keep.
PackedJson for_template(JsonView tools, const FieldTable& table, Endpoints endpoints) {
  const auto is_for_template = [&](FieldOf of, std::string_view name) {
    return name != "strict" && api::is_for_template(table, of, endpoints, name);
  };
  JsonRewriter out(tools.bytes().size());
  out.open(JsonKind::array);
  for (const auto& [index, tool] : tools.members()) {
    out.open(JsonKind::object);
    for (const auto& [key, value] : tool.members()) {
      if (value.is_null() || !is_for_template(FieldOf::tool, key)) continue;
      out.key(key);
      if (key != "function") {
        out.value(value);
        continue;
      }
      out.open(JsonKind::object);
      for (const auto& [name, member] : value.members()) {
        if (member.is_null() || !is_for_template(FieldOf::tool_function, name)) continue;
        out.key(name);
        out.value(member);
      }
      out.close();
    }
    out.close();
  }
  out.close();
  return out.take();
}

// Precondition: read_chat_history() has taken the messages.
Result<void> check_messages(JsonView messages, const FieldTable& table, Endpoints endpoints,
                            UnknownFields& unknown) {
  const auto each = [&](JsonView array, const std::string& place, auto check) -> Result<void> {
    std::size_t i = 0;
    for (const auto& [key, one] : array.members())
      if (auto ok = check(one, place + "[" + std::to_string(i++) + "]"); !ok) return ok;
    return {};
  };
  const auto check_part = [&](JsonView part, const std::string& place) {
    return check_members(part, table, FieldOf::part, endpoints, place, unknown);
  };
  const auto check_call = [&](JsonView call, const std::string& place) -> Result<void> {
    if (auto ok = check_members(call, table, FieldOf::call, endpoints, place, unknown); !ok) return ok;
    return check_members(call.find("function"), table, FieldOf::called_function, endpoints,
                         place + ".function", unknown);
  };
  return each(messages, "messages", [&](JsonView message, const std::string& place) -> Result<void> {
    auto ok = check_members(message, table, FieldOf::message, endpoints, place, unknown);
    if (const JsonView content = message.member("content"); ok && content.is_array())
      ok = each(content, place + ".content", check_part);
    if (const JsonView calls = message.member("tool_calls"); ok && calls)
      ok = each(calls, place + ".tool_calls", check_call);
    return ok;
  });
}

}  // namespace

Result<ChatHistory> read_chat_messages(JsonView messages, const FieldTable& table, Endpoints endpoints,
                                       UnknownFields& unknown) {
  auto history = read_chat_history(messages, [&](HistoryObject of, std::string_view name) {
    return is_for_template(table, field_of(of), endpoints, name);
  });
  if (!history) return history;
  if (auto ok = check_messages(messages, table, endpoints, unknown); !ok) return pass(ok);
  return history;
}

Result<DeclaredTools> read_tools(JsonView tools, const FieldTable& table, Endpoints endpoints,
                                 UnknownFields& unknown) {
  if (!tools.is_array()) return field_error(ErrorCode::invalid_value, "tools", "must be an array");
  DeclaredTools out;
  for (const auto& [key, tool] : tools.members()) {
    const std::string place = "tools[" + std::to_string(out.all().size()) + "]";
    const JsonView type = tool.is_object() ? tool.find("type") : JsonView();
    if (!type.is_string())
      return field_error(ErrorCode::invalid_value, place, "must be an object with a 'type'");
    if (type.text() != "function")
      return field_error(ErrorCode::unsupported_value, place + ".type", "is served as 'function' only");
    const JsonView function = tool.find("function");
    if (!function.is_object() || !function.find("name").is_string())
      return field_error(ErrorCode::invalid_value, place + ".function", "must be an object with a 'name'");
    const std::string_view name = function.find("name").text();
    if (!is_tool_name(name))
      return field_error(ErrorCode::invalid_value, place + ".function.name", std::string(kToolNameRule));
    if (!out.add(name))
      return field_error(ErrorCode::invalid_value, place + ".function.name",
                         "is the name of an earlier tool");
    if (const JsonView description = function.member("description"); description && !description.is_string())
      return field_error(ErrorCode::invalid_value, place + ".function.description", "must be a string");
    if (const JsonView parameters = function.member("parameters"); parameters && !parameters.is_object())
      return field_error(ErrorCode::invalid_value, place + ".function.parameters",
                         "must be a JSON schema, an object");
    auto ok = check_members(tool, table, FieldOf::tool, endpoints, place, unknown);
    if (ok)
      ok = check_members(function, table, FieldOf::tool_function, endpoints, place + ".function", unknown);
    if (!ok) return pass(ok);
  }
  if (!out.empty()) out.json = for_template(tools, table, endpoints);
  return out;
}

}  // namespace flyball::api
