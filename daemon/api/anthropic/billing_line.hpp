// A line that Claude Code (2.1.36 and later) writes before its system prompt:
//
//   x-anthropic-billing-header: cc_version=2.1.100.7b4; cc_entrypoint=cli; cch=eb6c6;
//
// Parts of it change with every request. It says nothing to a model, and the prompt behind it, tens of
// thousands of tokens, would share no KV with the turn before (anthropics/claude-code#24168). Pure.
#pragma once

#include <string_view>

namespace flyball::api::anthropic {

// The text without that line at its beginning.
std::string_view without_billing_line(std::string_view system) noexcept;

}  // namespace flyball::api::anthropic
