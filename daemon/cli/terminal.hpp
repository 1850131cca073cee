// What every command says the same way: errors on stderr, and whether a person is looking.
#pragma once

#include "config/error.hpp"
#include "config/terminal_text.hpp"
#include "config/units.hpp"

namespace flyball::cli {

// "flyball: apps.d/a.yaml:3:5: unknown key ..." on stderr; the exit code for it.
int report(const Error& error);
using config::size_text;  // every command shows sizes
bool stdout_is_terminal() noexcept;
bool stdin_is_terminal() noexcept;
bool stderr_is_terminal() noexcept;

}  // namespace flyball::cli
