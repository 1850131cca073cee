// Listeners and sockets: accepts connections and moves bytes between them and http::Connection. Decides
// nothing about HTTP; which connections it may have, ConnectionTable decides. One io_context thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "config/config.hpp"
#include "daemon/http/connection.hpp"
#include "daemon/http/connection_table.hpp"

namespace flyball::http {

// The most refused clients that are given time to read why, beside `connections`. Their descriptors are what
// that costs: an eighth more, and no more than 64, each for at most Connection::kLinger.
constexpr std::size_t leaving_connections(std::size_t connections) noexcept {
  return std::clamp<std::size_t>(connections / 8, 1, 64);
}

class Server {
 public:
  // `handler` outlives the server.
  Server(boost::asio::io_context& io, const config::HttpLimits& limits, Handler& handler);
  ~Server();

  // Opens all of them, or none: io_error names the one that failed. A systemd listener takes every descriptor
  // that socket activation passed.
  Result<void> listen(const std::vector<config::Listener>& listeners);
  std::vector<std::string> urls() const;  // "http://127.0.0.1:8080", "unix:/run/flyball/flyball.sock"
  void set_limits(const config::HttpLimits& limits);  // for connections to come
  void stop_accepting();                              // open connections stay
  void close_all();
  struct Connections {
    ConnectionTable::Counts table;
    std::size_t leaving = 0;  // refused, and given time to read why
  };
  Connections connections() const;
  bool busy() const;  // any connection's: what a shutdown should wait for

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace flyball::http
