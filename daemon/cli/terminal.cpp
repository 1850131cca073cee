#include "daemon/cli/terminal.hpp"

#include <unistd.h>

#include <cstdio>

#include "daemon/cli/exit_codes.hpp"

namespace flyball::cli {

int report(const Error& error) {
  std::fprintf(stderr, "flyball: %s\n", describe(error).c_str());
  return exit_code_for(error);
}

bool stdout_is_terminal() noexcept {
  return isatty(STDOUT_FILENO) == 1;
}
bool stdin_is_terminal() noexcept {
  return isatty(STDIN_FILENO) == 1;
}
bool stderr_is_terminal() noexcept {
  return isatty(STDERR_FILENO) == 1;
}

}  // namespace flyball::cli
