// Cuts a model's text into text, reasoning and calls of tools, by the form of its answer. The text is
// untrusted: what is malformed becomes text, and memory is linear in what is held back.
#pragma once

#include <memory>
#include <string_view>

#include "backends/answer_form.hpp"
#include "daemon/api/answer.hpp"
#include "daemon/api/tool_set.hpp"

namespace flyball::api::calls {

// No calls are read where there are no tools or the client wants none called; their markers then stay text.
// Reasoning is found nevertheless. `ids` is copied. `or_json`: the answer is held to calls or to JSON
// (JsonAnswer): one that begins with no call is text to its end, and an object without a marker is a call
// only where it begins with a tool's name and an object of arguments.
std::unique_ptr<TextParser> make_parser(std::shared_ptr<const ToolSet> tools, const AnswerForm& form,
                                        std::string_view ids, bool or_json = false);

}  // namespace flyball::api::calls
