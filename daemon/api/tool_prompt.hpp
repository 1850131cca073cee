// Tools told to a model whose chat template has no place for them: in a system message, and the calls and the
// results of its chat as text. Pure.
#pragma once

#include "backends/backend.hpp"
#include "daemon/api/tool_set.hpp"

namespace flyball::api {

// True where a chat has a part that such a template leaves out: tools, calls, or results of tools.
bool has_tool_parts(const ChatPrompt& prompt) noexcept;

// The same chat for such a model, without ChatPrompt::tools:
// - its first message is a system message that begins with the tools and how to call one;
// - a call is text behind the content of its turn, {"name": ..., "arguments": {...}} (CallFormat::json);
// - results of tools that follow one another are one user turn, "Tool result of NAME: ..." each; a user's
// text
//   behind them is in the same turn.
// `wish`: what the client wants of the tools; null: the model decides. `has_format`: an answer without a call
// has a form that the client demands. Precondition: messages are as
// read_chat_history() has them, tools as read_tools() has them.
ChatPrompt tell_tools(const ChatPrompt& prompt, const ToolSet* wish, bool has_format = false);

}  // namespace flyball::api
