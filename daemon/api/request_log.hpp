// The log's lines about requests: one for each, but those that come every few seconds, and one line for the
// refusals of a flood.
#pragma once

#include <chrono>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "backends/backend.hpp"
#include "config/error.hpp"
#include "daemon/api/refusal_log.hpp"

namespace flyball::api {

double milliseconds_since(std::chrono::steady_clock::time_point from);

class RequestLog {
 public:
  explicit RequestLog(boost::asio::io_context& io) : timer_(io) {}  // `io` outlives this
  ~RequestLog();                                                    // tells the refusals counted so far

  void log(std::string_view id, std::string_view app, std::string_view model, std::string_view backend,
           std::string_view operation, int status, std::string_view code, double ms,
           const Usage& usage) const;
  // True: this refusal gets its own line. False: it is counted, and the line of a flood tells the count.
  bool logs_whole(std::string_view app, ErrorCode code);
  // The line of a request that no engine was asked for.
  void log_refusal(std::string_view id, std::string_view app, std::string_view operation, int status,
                   ErrorCode code, double ms);

 private:
  void tell_refusals(RefusalLog::TimePoint now);
  void watch_refusals();

  RefusalLog refusals_;
  boost::asio::steady_timer timer_;
  bool watching_ = false;
};

}  // namespace flyball::api
