// Chat messages and tools as an API's table of fields has them: checked, then passed on in the client's own
// key order, as templates print it. Pure.
#pragma once

#include "config/error.hpp"
#include "config/packed_json.hpp"
#include "daemon/api/chat_history.hpp"
#include "daemon/api/declared_tools.hpp"
#include "daemon/api/field_table.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api {

// `messages`: an array, as read_chat_history() reads it. Members that the table lacks are noted in `unknown`.
// missing_field, invalid_value, unsupported_value, unsupported_feature name the field
// ("messages[2].role").
Result<ChatHistory> read_chat_messages(JsonView messages, const FieldTable& table, Endpoints endpoints,
                                       UnknownFields& unknown);
// `tools`: an array of {"type":"function","function":{"name":...}}, each name once, of at most 128 letters,
// digits and "_.:/-". Their JSON is for the model's template, and has no `strict`. None of them is strict.
Result<DeclaredTools> read_tools(JsonView tools, const FieldTable& table, Endpoints endpoints,
                                 UnknownFields& unknown);

}  // namespace flyball::api
