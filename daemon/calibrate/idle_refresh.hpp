// Measures what was not measured, or too long ago, while nobody asks anything: the ceilings of an engine's
// devices, or one model on one engine, one at a time, as the configuration in force says, in a process that
// is killed as soon as a request is here or, for a model, its memory is needed: ceilings take 256 MiB of each
// device of the engine for less than a second, which the memory governor knows nothing of. On the daemon's
// loop, and a thread that looks at model files and waits for that process.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "config/calibrate.hpp"
#include "daemon/calibrate/measuring.hpp"
#include "daemon/fleet/fleet.hpp"
#include "daemon/measure/subject.hpp"

namespace flyball::calibrate {

// When, and what next. Pure.
class IdlePlan {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Pair = std::pair<std::string, std::string>;  // model id and engine
  // What could be measured. `as`: all that the measurement would go by; where it is another, what came of an
  // earlier one says nothing.
  struct Due {
    Pair pair;
    std::string as;
    bool operator==(const Due&) const = default;
  };
  enum class Outcome : std::uint8_t {
    measured,
    failed,   // its process ended, say: perhaps another time
    refused,  // by the engine or for its size, and will be for as long as nothing changes
    no_room,  // in memory, now
  };
  static constexpr std::chrono::hours kRetry{6};
  static constexpr std::chrono::minutes kRetryForRoom{30};

  explicit IdlePlan(TimePoint now) : busy_at_(now) {}
  // Whether nothing was done for `after`; to be told again and again what is done.
  bool idle(TimePoint now, bool busy, std::chrono::milliseconds after);
  // The same by what idle() was told, for another span, above 0.
  bool idle_for(TimePoint now, std::chrono::milliseconds span) const { return now - busy_at_ >= span; }
  // The index of the first that was not tried, or not lately.
  std::optional<std::size_t> next(std::span<const Due> due, TimePoint now) const;
  void tried(const Due& due, Outcome outcome, TimePoint now) { tried_[due.pair] = {due.as, outcome, now}; }

 private:
  TimePoint busy_at_;
  struct Tried {
    std::string as;
    Outcome outcome;
    TimePoint at;
  };
  std::map<Pair, Tried> tried_;
};

// What this machine says: of its load average, and of a model's file (0: embedded).
bool others_work(std::uint32_t max_load_percent);
std::uint64_t stamp_of(const config::ModelEntry& model);

class IdleRefresh {
 public:
  using TimePoint = IdlePlan::TimePoint;
  struct Work {
    IdlePlan::Due due;  // the stamp of its file comes to it; without a model's id: ceilings
    Measuring measuring;
    config::ModelEntry model;
    measure::Engine engine;
  };
  // What it asks of the daemon and of the machine: on the loop, `stamp` and `measure` on a thread.
  struct Host {
    std::function<bool()> busy;  // a request is here, or was since it was asked last
    // Those without figures that still count, in order; looks at no model file.
    std::function<std::vector<Work>()> due;
    std::function<std::vector<Work>()> due_ceilings;  // the same of engines without ceilings
    // As Fleet::lend.
    std::function<fleet::Lent(const Work&, const MemoryNeed&,
                              std::function<void(const std::string&)> give_back)>
        lend;
    std::function<void(const measure::Subject&, std::vector<measure::Figure>)> keep;
    std::function<void(std::chrono::milliseconds)> look_after;  // look() is called then; the last call holds
    std::function<TimePoint()> now = std::chrono::steady_clock::now;
    // Others' programs keep more than so many percent of the processors at work.
    std::function<bool(std::uint32_t max_load_percent)> others_work = calibrate::others_work;
    std::function<std::uint64_t(const config::ModelEntry&)> stamp = stamp_of;
    std::function<Result<std::vector<measure::Figure>>(const Measuring&, const measure::Subject&,
                                                       const std::stop_token&)>
        measure = measure_in_child;
  };
  // Without a request, before ceilings are measured.
  static constexpr std::chrono::milliseconds kQuiet{2'000};
  static constexpr std::chrono::milliseconds kLook{1'000};   // until there is something to be done
  static constexpr std::chrono::milliseconds kRest{60'000};  // when there was nothing
  static constexpr std::chrono::milliseconds kWatch{5};      // for a request, while it measures

  IdleRefresh(boost::asio::io_context& io, Host host);
  void set(const config::CalibrateRules& rules);  // from now on
  void look();                                    // as it has asked for
  void stop();                                    // for good; what it measures is given up

 private:
  struct Ended {
    IdlePlan::Due due;
    measure::Subject subject;
    Result<std::vector<measure::Figure>> figures;
  };
  bool any_wanted() const { return rules_.ceilings || rules_.idle.count() > 0; }
  bool begin_ceilings();
  void begin(std::vector<Work> works);
  // The thread's. Absent: each of them was tried.
  std::optional<Ended> measure_next(std::vector<Work> works, const IdlePlan& plan, TimePoint now,
                                    const std::stop_token& stop);
  Result<std::uint64_t> borrow(const Work& work, const MemoryNeed& need, const std::stop_token& stop);
  void ended(std::optional<Ended> ended);
  IdlePlan::Outcome outcome_of(const Ended& ended) const;

  boost::asio::io_context& io_;
  const Host host_;
  config::CalibrateRules rules_;
  IdlePlan plan_;
  measure::Digests digests_;  // the thread's, while it runs
  bool measuring_ = false, stopped_ = false;
  bool of_devices_ = false;                       // it measures ceilings, and no model
  std::unique_ptr<fleet::Loan> loan_;             // for what it measures
  std::optional<IdlePlan::Outcome> lender_said_;  // of that: it was not lent, or is to be given back
  std::jthread thread_;                           // last: it ends before what it uses
};

}  // namespace flyball::calibrate
