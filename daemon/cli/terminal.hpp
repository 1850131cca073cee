// What every command says the same way: errors on stderr, and whether a person is looking.
#pragma once

#include <string>
#include <string_view>

#include "config/error.hpp"
#include "config/units.hpp"

namespace flyball::cli {

// "flyball: apps.d/a.yaml:3:5: unknown key ..." on stderr; the exit code for it.
int report(const Error& error);
using config::size_text;  // every command shows sizes
// Text of anybody's, fit for a terminal: bytes that are no UTF-8, control characters (C0, DEL, C1) and marks
// that turn the direction of writing are '?'. Cut before the character that would exceed `most` bytes.
std::string terminal_text(std::string_view text, std::size_t most = std::string_view::npos);
bool stdout_is_terminal() noexcept;
bool stdin_is_terminal() noexcept;
bool stderr_is_terminal() noexcept;

}  // namespace flyball::cli
