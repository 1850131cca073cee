// `flyball engine`: the worker process that `flyball serve` starts. Not for hands.
#include <sys/resource.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <spdlog/spdlog.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "backends/worker/server.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/engine_options.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/number_option.hpp"
#include "daemon/systemd/log_writer.hpp"
#include "daemon/systemd/logging.hpp"

namespace flyball::cli {
namespace {

struct ServeEngine {
  int fd = 3;
  EngineOptions engine;
};

// Never below what the daemon runs at: that takes rights which an engine does not have.
void be_nice(int nice) {
  if (nice <= ::getpriority(PRIO_PROCESS, 0)) return;
  [[maybe_unused]] const int ignored = ::setpriority(PRIO_PROCESS, 0, nice);  // to be nicer is always allowed
}

bool is_stream_socket(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

}  // namespace

void add_engine_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ServeEngine>();
  CLI::App* command =
      app.add_subcommand("engine", "Serve one model on one backend to a daemon (started by serve)");
  command->add_option("--fd", options->fd, "The connected socket to the daemon")
      ->required()
      ->check(whole_number(0, 1 << 20));
  add_engine_options(*command, options->engine);
  command->get_option("--model-id")->required();
  command->callback([options, &exit_code] {
    if (!is_stream_socket(options->fd)) {
      std::fprintf(stderr, "flyball: --fd %d is no connected socket\n", options->fd);
      exit_code = kUsage;
      return;
    }
    be_nice(options->engine.nice);  // threads that begin later have it, too
    systemd::set_up_logging("info");
    local::LocalBackendOptions backend = settled(options->engine);
    backend.warn = [](const std::string& what) { spdlog::warn("{}", what); };
    exit_code = worker::serve_worker(options->fd, backend);
    systemd::wait_for_log();
    // A load that was cut off may still run in a thread; its memory is the kernel's business now.
    std::_Exit(exit_code);
  });
}

}  // namespace flyball::cli
