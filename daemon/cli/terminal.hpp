// What every command says the same way: errors on stderr, and whether a person is looking.
#pragma once

#include <cstdint>
#include <string>

#include "config/error.hpp"

namespace flyball::cli {

// "flyball: apps.d/a.yaml:3:5: unknown key ..." on stderr; the exit code for it.
int report(const Error& error);
// "512 bytes", "22.0 KiB", "4.5 GiB".
std::string size_text(std::uint64_t bytes);
bool stdout_is_terminal() noexcept;
bool stdin_is_terminal() noexcept;
bool stderr_is_terminal() noexcept;

}  // namespace flyball::cli
