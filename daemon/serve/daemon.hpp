// The running daemon: settings, gateway and fleet on one io_context, and what signals and systemd do to them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "config/error.hpp"
#include "daemon/settings/settings.hpp"

namespace flyball::serve {

struct DaemonOptions {
  settings::Source source;
  std::optional<std::string> log_level;
  int ready_fd = -1;       // told the URLs, one a line, and closed, once the daemon serves
  bool print_url = false;  // stdout holds the URLs alone
  std::chrono::milliseconds probe_timeout{
      5'000};  // for each GPU API; a driver that hangs is reported as such
};

// Why the daemon did not start.
struct StartFailure {
  Error error;
  bool in_settings = false;  // the operator's files are wrong or cannot be read: starting again is of no use
};

// Serves until it is told to stop.
std::expected<void, StartFailure> run_daemon(const DaemonOptions& options);

}  // namespace flyball::serve
