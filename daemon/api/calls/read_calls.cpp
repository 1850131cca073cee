#include "daemon/api/calls/read_calls.hpp"

#include "daemon/api/calls/parser.hpp"
#include "daemon/api/calls/structure.hpp"

namespace flyball::api::calls {

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
