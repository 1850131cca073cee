// Text of strangers on a terminal.
#pragma once

#include <string>
#include <string_view>

#include "config/error.hpp"

namespace flyball {

// Text of anybody's, fit for a terminal: bytes that are no UTF-8, control characters (C0, DEL, C1) and marks
// that turn the direction of writing are '?'. Cut before the character that would exceed `most` bytes.
std::string terminal_text(std::string_view text, std::size_t most = std::string_view::npos);
// The error with such a message.
Error terminal_text(Error error);

}  // namespace flyball
