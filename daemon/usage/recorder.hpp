// Keeps the ledger on the daemon's thread and brings what changed to the store, at most kDelay later: what a
// kill of the daemon can lose.
#pragma once

#include <chrono>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/store/writer.hpp"
#include "daemon/usage/ledger.hpp"

namespace flyball::usage {

class Recorder {
 public:
  static constexpr std::chrono::milliseconds kDelay{250};

  // `past`: what was stored of the last Ledger::kKeptDays. writer: nullptr, or outlives this.
  Recorder(boost::asio::io_context& io, store::Writer* writer, std::vector<AppDay> past);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  DayUsage& change(const std::string& app, std::int64_t day);
  const Ledger& ledger() const noexcept { return ledger_; }

 private:
  void store();

  Ledger ledger_;
  store::Writer* writer_;
  boost::asio::steady_timer timer_;
  bool due_ = false;
};

}  // namespace flyball::usage
