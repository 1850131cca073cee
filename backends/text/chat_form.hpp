// Which form of a chat's turns a template reads, found out by rendering: no list of models, no look at the
// template's source. Templates of the field disagree about tool calls and content parts
// (huggingface/transformers#45419 compares them), and a turn in a form that a template does not expect is
// dropped or printed as Python, mostly without an error.
#pragma once

#include "backends/text/chat_template.hpp"

namespace flyball::text {

// The form in which the template shows a turn's content and a call's name and arguments, JSON unharmed. The
// plain form where it shows several, or none, or where a render comes to the template's budget. Renders at
// most 24 chats of up to four messages.
ChatForm find_chat_form(const ChatTemplate& chat_template);

}  // namespace flyball::text
