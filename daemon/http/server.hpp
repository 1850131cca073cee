// Listeners and sockets: accepts connections and moves bytes between them and http::Connection. Decides
// nothing about HTTP. One io_context thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "config/config.hpp"
#include "daemon/http/connection.hpp"

namespace flyball::http {

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
  std::size_t connections() const noexcept;
  bool busy() const;  // any connection's: what a shutdown should wait for

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace flyball::http
