// The members of a response that repeat its request, as JSON text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "daemon/api/fields.hpp"
#include "daemon/api/openai/responses_tools.hpp"

namespace flyball::api::openai::responses {

class Echo {
 public:
  Echo() = default;
  Echo(const Fields& body, const ReadTools& tools);

  // The members that are short, each behind a comma: ,"parallel_tool_calls":true,...
  std::string_view settings() const noexcept { return settings_; }
  // The members that may be as long as the request, in the same form: instructions, metadata, text,
  // tool_choice and tools. Tools are those that the answer may call, and those in a namespace with one of
  // them.
  std::string_view texts() const noexcept { return texts_; }
  // Whether the first events of a stream have the texts, too: the last one always has them.
  bool is_short() const noexcept { return texts_.size() <= kShortBytes; }
  // The bytes of this, and of its copies in a stream's events, which the client may not have read. A whole
  // response is encoded as its client reads it.
  std::size_t bytes(bool streamed) const noexcept;

 private:
  static constexpr std::size_t kShortBytes = 4 * 1024;  // a few tools and the instructions of a chat

  std::string settings_, texts_;
};

}  // namespace flyball::api::openai::responses
