#include "daemon/settings/descriptors.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <string>

#include <spdlog/spdlog.h>

#include "daemon/http/server.hpp"

namespace flyball::settings {
namespace {

// Connections, workers and files of the largest configuration that is served; some kernels take a limit in
// the millions for a table that large.
constexpr rlim_t kMaxOpenFiles = 65'536;
// Standard streams 3, the loop 5 (epoll, timer, wake-up, signals 2), the store 6 (lock, database, log, shared
// memory, two passing files), a connection before its verdict 2, a worker's start 3, a measuring child 3, a
// reload's file and directory 2, the removal of former apps' KV 2 (directory, file).
constexpr std::uint64_t kOwnDescriptors = 26;
constexpr std::uint64_t kModelDescriptors = 1;   // the child that reads its file at a reload
constexpr std::uint64_t kWorkerDescriptors = 2;  // its socket, and its process

}  // namespace

std::uint64_t raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMaxOpenFiles;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::min(limit.rlim_max, kMaxOpenFiles);
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

std::uint64_t reserved_descriptors(const config::Config& config, std::size_t own_engines) {
  return kOwnDescriptors + config.listeners.size() +
         config.models.size() *
             (kModelDescriptors + kWorkerDescriptors * (config::kEngineKinds.size() + own_engines));
}

Result<std::uint32_t> connections_within(std::uint64_t open_files, const config::Config& config,
                                         std::size_t own_engines) {
  const std::uint64_t reserved = reserved_descriptors(config, own_engines);
  const std::uint64_t left = open_files - std::min(open_files, reserved);
  // The most whose leaving ones fit beside them: an eighth, as long as that is less than their bound.
  std::uint64_t fit = std::min<std::uint64_t>(left, config.http.connections);
  while (fit > 0 && fit + http::leaving_connections(fit) > left) --fit;
  const std::uint64_t fewest = std::min(kFewestConnections, config.http.connections);
  if (fit < fewest)
    return fail(
        ErrorCode::config_invalid,
        "The process may open " + std::to_string(open_files) + " files, and needs " +
            std::to_string(reserved + fewest + http::leaving_connections(fewest)) + " for " +
            std::to_string(config.models.size()) + " models and " + std::to_string(fewest) +
            " connections: raise the limit (LimitNOFILE in the unit, ulimit -n) or name fewer models.",
        {}, "RLIMIT_NOFILE");
  return static_cast<std::uint32_t>(fit);
}

Result<void> fit_connections(std::uint64_t open_files, config::Config& config, std::size_t own_engines) {
  const auto fit = connections_within(open_files, config, own_engines);
  if (!fit) return pass(fit);
  const std::uint64_t reserved = reserved_descriptors(config, own_engines);
  if (*fit < config.http.connections)
    spdlog::warn(
        "http.connections reduced to fit the limit of open files | configured={} connections={} "
        "open_files={} reserved_files={}",
        config.http.connections, *fit, open_files, reserved);
  else
    spdlog::info("http.connections in force | connections={} open_files={} reserved_files={}", *fit,
                 open_files, reserved);
  config.http.connections = *fit;
  return {};
}

}  // namespace flyball::settings
