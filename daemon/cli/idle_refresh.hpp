// Measures what was not measured, or too long ago, while nobody asks anything: one model on one engine at a
// time, in a process that is killed as soon as a request is here. On the daemon's loop, and a thread that
// waits for that process.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "config/calibrate.hpp"
#include "daemon/cli/measuring.hpp"

namespace flyball::cli {

// When, and what next. Pure.
class IdlePlan {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Pair = std::pair<std::string, std::string>;  // model id and engine
  // What was tried is not tried again for so long, whatever came of it.
  static constexpr std::chrono::hours kRetry{6};

  explicit IdlePlan(TimePoint now) : busy_at_(now) {}
  // Whether nothing was done for `after`; to be told again and again what is done.
  bool idle(TimePoint now, bool busy, std::chrono::milliseconds after);
  std::optional<Pair> next(std::span<const Pair> due, TimePoint now) const;
  void tried(const Pair& pair, TimePoint now) { tried_[pair] = now; }

 private:
  TimePoint busy_at_;
  std::map<Pair, TimePoint> tried_;
};

class IdleRefresh {
 public:
  struct Work {
    Measuring measuring;
    config::ModelEntry model;
  };
  // What it asks of the daemon, always on the loop.
  struct Host {
    std::function<bool()> busy;                        // a request is here, or was since it was asked last
    std::function<std::vector<IdlePlan::Pair>()> due;  // those without figures that still count, in order
    // nullopt: it cannot be measured now: no room, or it is gone.
    std::function<std::optional<Work>(const IdlePlan::Pair&)> prepare;
    std::function<void(const measure::Subject&, std::vector<measure::Figure>)> keep;
  };
  static constexpr std::chrono::milliseconds kLook{1'000};  // while there is nothing to be done
  static constexpr std::chrono::milliseconds kWatch{5};     // for a request, while it measures

  IdleRefresh(boost::asio::io_context& io, Host host);
  void set(const config::CalibrateRules& rules);  // from now on
  void stop();                                    // for good; what it measures is given up

 private:
  struct Measured {
    measure::Subject subject;
    Result<std::vector<measure::Figure>> figures;
  };
  void look_after(std::chrono::milliseconds delay);
  void look();
  void begin(const IdlePlan::Pair& pair, Work work);
  void ended(const IdlePlan::Pair& pair, Measured measured);

  boost::asio::io_context& io_;
  const Host host_;
  config::CalibrateRules rules_;
  IdlePlan plan_;
  boost::asio::steady_timer timer_;
  measure::Digests digests_;  // the thread's, while it runs
  bool measuring_ = false, stopped_ = false;
  std::jthread thread_;  // last: it ends before what it uses
};

}  // namespace flyball::cli
