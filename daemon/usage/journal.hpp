// Keeps the usage of each day on the daemon's thread and brings what changed to the store, at most kDelay
// later: a kill of the daemon loses no more. Days that could not be written stay changed, and are written
// again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/store/writer.hpp"
#include "daemon/usage/daily_usage.hpp"

namespace flyball::usage {

class Journal {
 public:
  static constexpr std::chrono::milliseconds kDelay{250};
  static constexpr std::chrono::milliseconds kRetryDelay{2000};  // after a write that failed
  static constexpr std::chrono::minutes kWarnEvery{1};

  // `past`: the days stored of the last DailyUsage::kKeptDays. writer: nullptr, or outlives this.
  Journal(boost::asio::io_context& io, store::Writer* writer, Past past);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  DayUsage& change(const std::string& app, std::int64_t day);
  const DailyUsage& usage() const noexcept { return usage_; }

 private:
  // One at a time; the writer's thread says what became of it, and look() reads it.
  struct Write {
    enum class State : std::uint8_t { going, written, failed };
    std::vector<AppDay> rows;
    std::atomic<State> state = State::going;
  };
  void look_after(std::chrono::milliseconds delay);
  void look();
  void failed(const std::string& why);

  DailyUsage usage_;
  store::Writer* writer_;
  boost::asio::steady_timer timer_;
  bool due_ = false;
  std::shared_ptr<Write> write_;
  std::optional<std::chrono::steady_clock::time_point> warned_;
};

}  // namespace flyball::usage
