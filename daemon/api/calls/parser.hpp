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
// Reasoning is found nevertheless. `ids` is copied.
std::unique_ptr<TextParser> make_parser(std::shared_ptr<const ToolSet> tools, const AnswerForm& form,
                                        std::string_view ids);

}  // namespace flyball::api::calls
