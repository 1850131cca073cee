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

std::string size_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024.0 && unit + 1 < std::size(kUnits); ++unit) value /= 1024.0;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

}  // namespace flyball::cli
