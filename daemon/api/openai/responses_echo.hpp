// What a response repeats of its request, as JSON text.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "daemon/api/fields.hpp"
#include "daemon/api/openai/responses_tools.hpp"
#include "daemon/api/tool_set.hpp"

namespace flyball::api::openai::responses {

class Echo {
 public:
  Echo() = default;
  Echo(const Fields& body, const ReadTools& tools);

  // The members that are short, each behind a comma: ,"parallel_tool_calls":true,...
  void append_settings(std::string& out) const { out.append(settings_); }
  // Those that may be as long as the request: instructions, metadata, text, tool_choice and tools. Tools are
  // those that the answer may call.
  void append_long(std::string& out) const;
  std::size_t bytes() const noexcept;  // of memory, and of what append_long() writes

 private:
  std::string settings_, long_;
  std::shared_ptr<const ToolSet> tools_;  // null: none
  std::vector<bool> strict_;
};

}  // namespace flyball::api::openai::responses
