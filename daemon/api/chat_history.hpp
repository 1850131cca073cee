// A chat's messages, the same for the model's template whichever client sent them. Clients send their earlier
// answers back in many spellings of one meaning; templates tell them apart, and fail or print "None". The
// messages of APIs with OpenAI's form of them pass through here; others are written in the form that comes
// out. Pure. Which form of a turn a template reads is known to the engine alone
// (backends/text/chat_form).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "config/error.hpp"
#include "config/packed_json.hpp"

namespace flyball::api {

inline constexpr std::size_t kMaxMessages = 4'096;

struct ChatHistory {
  PackedJson messages;  // array of {role, content, ...}, members in the client's own order
  std::string note;     // what the client should know of how its history was read; "": nothing
};

// Objects whose members come out as they came in.
enum class HistoryObject : std::uint8_t { message, call, function };
// Whether a member of such an object is for the model's template; others are left out.
using IsForTemplate = std::function<bool(HistoryObject of, std::string_view name)>;

// `messages`: an array in the shape of POST /v1/chat/completions. In what comes out
// - `role` is system, user, assistant or tool: "developer" is "system";
// - `content` is always there and a string: text parts are joined by newlines, and a turn that only calls
//   tools has "";
// - a call has a `type`, and its `arguments` is an object: the one that the text spells, {} for an empty one.
//   Text that spells no object stays, and `note` says so;
// - an assistant's `reasoning` or `thinking` is its `reasoning_content`, too, and a result's `tool_name` its
//   `name`. Both stay under the client's name as well, because templates read them;
// - other members that are null or empty are left out, in messages, calls and functions alike, and those that
//   are not for the template.
// missing_field, invalid_value, unsupported_value, unsupported_feature, json_too_deep and json_too_large name
// the member ("messages[2].role").
Result<ChatHistory> read_chat_history(JsonView messages, const IsForTemplate& is_for_template);

}  // namespace flyball::api
