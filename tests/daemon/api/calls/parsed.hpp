// Answers of models, parsed as a choice reads them, and the cases of tests/daemon/api/calls/cases.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "backends/answer_form.hpp"
#include "backends/text/answer_form.hpp"
#include "daemon/api/answer.hpp"
#include "daemon/api/tool_set.hpp"

namespace flyball {
void PrintTo(CallFormat format, std::ostream* out);
}  // namespace flyball

namespace flyball::api::calls::testing {

struct Case {
  std::string name = {};
  AnswerForm form = {};
  std::shared_ptr<const ToolSet> tools = {};  // null: none
  std::string text = {};
  Choice want = {};      // an id that is "" may be any
  bool or_json = false;  // as make_parser has it
};

std::vector<Case> cases_of(CallFormat format);
std::shared_ptr<const ToolSet> tools_of(std::string_view json);

// The answer, cut at these places, which are in order.
Choice parsed(const Case& each, const std::vector<std::size_t>& cuts);
std::string shown(const Choice& choice, bool with_ids);  // as JSON

}  // namespace flyball::api::calls::testing
