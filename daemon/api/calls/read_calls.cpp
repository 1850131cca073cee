#include "daemon/api/calls/read_calls.hpp"

#include "daemon/api/calls/parser.hpp"
#include "daemon/api/calls/structure.hpp"
#include "daemon/api/field_error.hpp"

namespace flyball::api::calls {

Result<void> check_constraint(const Generate& chat) {
  if (!chat.has_tools || !chat.base.constraint) return {};
  return field_error(ErrorCode::unsupported_feature, "tools",
                     "are not served beside '" + chat.constraint_field +
                         "': a constrained answer cannot hold tool calls. Leave one of them out, or choose "
                         "no tool by 'tool_choice' where the API has it");
}

void read_calls(Generate& chat) {
  if (chat.base.constraint) return;
  chat.base.marks_control = true;
  chat.parser = [tools = chat.tools](const AnswerForm& form, std::string_view ids) {
    return make_parser(tools, form, ids);
  };
  if (chat.tools)
    chat.call_constraint = [tools = chat.tools](const AnswerForm& form) {
      return call_constraint(*tools, form);
    };
}

}  // namespace flyball::api::calls
