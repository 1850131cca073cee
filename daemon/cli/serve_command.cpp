// `flyball serve`: the daemon.
#include <fcntl.h>

#include <cstdio>
#include <memory>
#include <string>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/number_option.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/serve/daemon.hpp"
#include "daemon/settings/config_files.hpp"

namespace flyball::cli {
namespace {

bool is_writable(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  struct Given {
    serve::DaemonOptions daemon;
    std::string config, log_level, kv_type;
    std::uint16_t port = 0;
    std::uint32_t probe_timeout_ms = 5'000;
  };
  auto given = std::make_shared<Given>();
  CLI::App* c = app.add_subcommand("serve", "Run the daemon: listen, route, supervise the engines");
  c->add_option(
      "-c,--config", given->config,
      "config.yaml; absent: ~/.config/flyball or /etc/flyball, else the shipped one (demo model, loopback)");
  CLI::Option* port =
      c->add_option("-p,--port", given->port, "Instead of the first TCP listener's; 0: any free one")
          ->check(whole_number(0, UINT16_MAX));
  CLI::Option* level = c->add_option("--log-level", given->log_level, "Instead of the configuration's")
                           ->check(CLI::IsMember(std::vector<std::string>(config::kLogLevels.begin(),
                                                                          config::kLogLevels.end())));
  CLI::Option* kv = c->add_option("--kv", given->kv_type,
                                  "What every model's KV cache is kept as, instead of the configuration's")
                        ->check(CLI::IsMember({"f16", "q8_0"}));
  CLI::Option* ready_fd = c->add_option("--ready-fd", given->daemon.ready_fd,
                                        "Write the URLs to this descriptor once serving, and close it")
                              ->check(whole_number(0, 1 << 20));
  c->add_flag("--print-url", given->daemon.print_url, "Nothing but the URLs on standard output");
  c->add_option("--probe-timeout-ms", given->probe_timeout_ms, "How long one GPU driver may take to answer")
      ->check(whole_number(1, 600'000))
      ->capture_default_str();
  c->footer(
      "Signals: SIGTERM and SIGINT drain (a second one stops at once), SIGHUP reloads the files and keeps "
      "the old\n"
      "configuration when the new one is wrong. During the start SIGTERM and SIGINT end it at once, and "
      "SIGHUP is\n"
      "one reload when it serves.\n"
      "Examples:\n"
      "  flyball serve\n"
      "  flyball serve --config /etc/flyball/config.yaml\n"
      "  flyball serve --port 0 --print-url");
  c->callback([given, port, level, kv, ready_fd, &exit_code] {
    if (ready_fd->count() > 0 && !is_writable(given->daemon.ready_fd)) {
      std::fprintf(stderr, "flyball: --ready-fd %d is not open for writing\n", given->daemon.ready_fd);
      exit_code = kUsage;
      return;
    }
    given->daemon.source.config =
        given->config.empty() ? settings::find_config() : std::filesystem::path(given->config);
    if (port->count() > 0) given->daemon.source.port = given->port;
    if (level->count() > 0) given->daemon.log_level = given->log_level;
    if (kv->count() > 0) given->daemon.source.kv_type = given->kv_type;
    given->daemon.probe_timeout = std::chrono::milliseconds(given->probe_timeout_ms);
    const auto served = serve::run_daemon(given->daemon);
    exit_code = served ? kOk : report(served.error().error);
    if (!served && served.error().in_settings) exit_code = kBadConfig;
  });
}

}  // namespace flyball::cli
