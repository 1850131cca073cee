#include "daemon/api/calls/read_calls.hpp"

#include "daemon/api/calls/parser.hpp"
#include "daemon/api/calls/structure.hpp"
#include "daemon/api/field_error.hpp"

namespace flyball::api::calls {
namespace {

bool is_json_format(const Constraint& constraint) noexcept {
  return constraint.kind == Constraint::Kind::json_object || constraint.kind == Constraint::Kind::json_schema;
}

}  // namespace

Result<void> check_constraint(const Generate& chat) {
  if (!chat.has_tools || !chat.base.constraint || is_json_format(*chat.base.constraint)) return {};
  return field_error(ErrorCode::unsupported_feature, "tools",
                     "are not served beside '" + chat.constraint_field +
                         "': only JSON can stand for calls in an answer. Leave one of them out, or choose "
                         "no tool by 'tool_choice' where the API has it");
}

void read_calls(Generate& chat) {
  if (chat.base.constraint && !chat.tools) return;
  if (chat.tools && chat.tools->choice == ToolSet::Choice::required) chat.base.constraint.reset();
  chat.base.marks_control = true;
  chat.parser = [tools = chat.tools, or_json = chat.base.constraint.has_value()](const AnswerForm& form,
                                                                                 std::string_view ids) {
    return make_parser(tools, form, ids, or_json);
  };
  if (chat.tools)
    chat.call_constraint = [tools = chat.tools](const AnswerForm& form, const JsonAnswer& json) {
      return call_constraint(*tools, form, json);
    };
}

}  // namespace flyball::api::calls
