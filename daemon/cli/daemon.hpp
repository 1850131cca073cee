// The running daemon: settings, gateway and fleet on one io_context, and what signals and systemd do to them.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace flyball::cli {

struct DaemonOptions {
  std::filesystem::path config;       // "": the shipped defaults
  std::optional<std::uint16_t> port;  // instead of the first TCP listener's
  std::optional<std::string> log_level;
  std::optional<std::string> kv_type;  // of every model, instead of the configuration's: f16 or q8_0
  int ready_fd = -1;                   // told the URLs, one a line, and closed, once the daemon serves
  bool print_url = false;              // stdout holds the URLs alone
  std::chrono::milliseconds probe_timeout{
      5'000};  // for each GPU API; a driver that hangs is reported as such
};

// Serves until it is told to stop. The exit code.
int run_daemon(const DaemonOptions& options);

}  // namespace flyball::cli
