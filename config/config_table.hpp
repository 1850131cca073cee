// The keys of config.yaml: which there are, of which type and range, meaning what, and where each value goes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "config/table.hpp"

namespace flyball::config {

inline constexpr std::string_view kConfigSchema = "flyball.config/v1";

struct TcpAddress {
  std::string address;  // as inet_ntop writes it, however the file does
  std::uint16_t port = 0;
  bool ipv6 = false;
};
// "127.0.0.1:8080" or "[::1]:8080"; literal addresses only, so that what is opened never depends on a
// resolver. An IPv4 address written as one of IPv6 (::ffff:127.0.0.1) is refused: sockets of IPv6 take IPv6
// alone.
std::optional<TcpAddress> parse_tcp(std::string_view text);

const std::vector<Bound<Config>>& config_table();
// Its `worker`, for what no single row shows.
const std::vector<Bound<HttpLimits>>& http_table();
const std::vector<Bound<WorkerLimits>>& worker_table();

}  // namespace flyball::config
