#include "daemon/calibrate/idle_refresh.hpp"

#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "backends/device/thread_pool.hpp"
#include "daemon/fleet/file_stamp.hpp"

namespace flyball::calibrate {
namespace {

// Until the file, or what is said of it, is another.
bool for_good(ErrorCode code) {
  return code == ErrorCode::model_invalid || code == ErrorCode::model_unsupported ||
         code == ErrorCode::invalid_value || code == ErrorCode::unsupported_value;
}

std::string named(const IdlePlan::Pair& pair) {
  return (pair.first.empty() ? "ceilings of" : "model=" + pair.first) + " backend=" + pair.second;
}

}  // namespace

// What is measured beside others' work is no figure of this machine.
bool others_work(std::uint32_t max_load_percent) {
  double load = 0;
  return getloadavg(&load, 1) == 1 &&
         load * 100 > static_cast<double>(max_load_percent) * device::usable_processors();
}

std::uint64_t stamp_of(const config::ModelEntry& model) {
  return model.embedded ? 0 : fleet::file_stamp(model.path);
}

bool IdlePlan::idle(TimePoint now, bool busy, std::chrono::milliseconds after) {
  if (busy) busy_at_ = now;
  return !busy && now - busy_at_ >= after;
}

std::optional<std::size_t> IdlePlan::next(std::span<const Due> due, TimePoint now) const {
  for (std::size_t i = 0; i < due.size(); ++i) {
    const auto at = tried_.find(due[i].pair);
    if (at == tried_.end() || at->second.as != due[i].as) return i;
    const Tried& before = at->second;
    const auto rest = before.outcome == Outcome::no_room ? std::chrono::minutes(kRetryForRoom) : kRetry;
    if (before.outcome != Outcome::refused && now - before.at >= rest) return i;
  }
  return std::nullopt;
}

IdleRefresh::IdleRefresh(boost::asio::io_context& io, Host host)
    : io_(io), host_(std::move(host)), plan_(host_.now()) {}

void IdleRefresh::set(const config::CalibrateRules& rules) {
  rules_ = rules;
  if (measuring_ || stopped_) return;  // the watch goes on, and a look follows it
  if (any_wanted()) host_.look_after(kLook);
}

void IdleRefresh::stop() {
  stopped_ = true;
  thread_.request_stop();
}

void IdleRefresh::look() {
  if (stopped_) return;
  const TimePoint now = host_.now();
  const bool models = plan_.idle(now, host_.busy(), rules_.idle) && rules_.idle.count() > 0;
  const bool ceilings = rules_.ceilings && plan_.idle_for(now, kQuiet);
  if (measuring_) {
    if (!(of_devices_ ? ceilings : models)) thread_.request_stop();
    return host_.look_after(kWatch);
  }
  if (!any_wanted()) return;
  if ((!models && !ceilings) || host_.others_work(rules_.max_load)) return host_.look_after(kLook);
  if (ceilings && begin_ceilings()) return;
  if (!models) return host_.look_after(rules_.idle.count() > 0 ? kLook : kRest);
  std::vector<Work> works = host_.due();
  if (works.empty()) return host_.look_after(kRest);
  of_devices_ = false;
  begin(std::move(works));
}

// False: there is none to measure, or each was tried.
bool IdleRefresh::begin_ceilings() {
  std::vector<Work> works = host_.due_ceilings();
  std::vector<IdlePlan::Due> due;
  for (const Work& work : works) due.push_back(work.due);
  if (!plan_.next(due, host_.now())) return false;
  of_devices_ = true;
  begin(std::move(works));
  return true;
}

void IdleRefresh::begin(std::vector<Work> works) {
  measuring_ = true;
  lender_said_.reset();
  thread_ = std::jthread(
      [this, works = std::move(works), plan = plan_, now = host_.now()](const std::stop_token& stop) mutable {
        auto over = measure_next(std::move(works), plan, now, stop);
        boost::asio::post(io_, [this, over = std::move(over)]() mutable { ended(std::move(over)); });
      });
  host_.look_after(kWatch);
}

// Files are looked at here: their disk may be slow, or asleep.
std::optional<IdleRefresh::Ended> IdleRefresh::measure_next(std::vector<Work> works, const IdlePlan& plan,
                                                            TimePoint now, const std::stop_token& stop) {
  std::vector<IdlePlan::Due> due;
  for (const Work& work : works) {
    due.push_back(work.due);
    if (!work.model.id.empty()) due.back().as += " of file " + std::to_string(host_.stamp(work.model));
  }
  const auto next = plan.next(due, now);
  if (!next) return std::nullopt;
  const Work& work = works[*next];
  spdlog::info("measuring while there is no request | {}", named(work.due.pair));
  Measuring measuring = work.measuring;
  measuring.memory = MeasuringMemory{
      .ask = [&](const MemoryNeed& need) { return borrow(work, need, stop); },
      .holds =
          [this](std::uint64_t bytes) {
            boost::asio::post(io_, [this, bytes] {
              if (loan_) loan_->holds(bytes);
            });
          },
  };
  Ended ended{due[*next],
              work.model.id.empty() ? measure::subject_of(work.engine)
                                    : measure::subject_of(work.engine, digests_.of(work.model), work.model),
              {}};
  ended.figures = host_.measure(measuring, ended.subject, stop);
  return ended;
}

// The loop may have ended by now, and answer nothing.
Result<std::uint64_t> IdleRefresh::borrow(const Work& work, const MemoryNeed& need,
                                          const std::stop_token& stop) {
  struct Answer {
    std::mutex mutex;
    std::condition_variable_any come;
    std::optional<Result<std::uint64_t>> kv_bytes;  // mutex
  };
  const auto answer = std::make_shared<Answer>();
  boost::asio::post(io_, [this, work, need, answer] {
    // Once it is to end for a request nothing else has a say: it is begun anew when the machine is idle
    // again.
    const auto to_end = [this] { return thread_.get_stop_token().stop_requested(); };
    if (to_end()) return;
    auto loan = host_.lend(work, need, [this, to_end](const std::string& why) {
      spdlog::info("measuring ends: {}", why);
      if (!to_end()) lender_said_ = IdlePlan::Outcome::no_room;
      thread_.request_stop();
    });
    const std::lock_guard lock(answer->mutex);
    if (loan) {
      answer->kv_bytes = (*loan)->kv_bytes();
      loan_ = std::move(*loan);
    } else {
      lender_said_ = loan.error().for_good ? IdlePlan::Outcome::refused : IdlePlan::Outcome::no_room;
      answer->kv_bytes = std::unexpected(std::move(loan.error().why));
    }
    answer->come.notify_one();
  });
  std::unique_lock lock(answer->mutex);
  if (!answer->come.wait(lock, stop, [&] { return answer->kv_bytes.has_value(); }))
    return fail(ErrorCode::cancelled, "Something else was to be done.");
  return *answer->kv_bytes;
}

IdlePlan::Outcome IdleRefresh::outcome_of(const Ended& ended) const {
  using Outcome = IdlePlan::Outcome;
  if (ended.figures) return Outcome::measured;
  if (lender_said_) return *lender_said_;
  const ErrorCode code = ended.figures.error().code;
  if (code == ErrorCode::insufficient_memory) return Outcome::no_room;
  return for_good(code) ? Outcome::refused : Outcome::failed;
}

void IdleRefresh::ended(std::optional<Ended> ended) {
  measuring_ = false;
  loan_.reset();  // its process is gone
  if (stopped_) return;
  if (!ended) return host_.look_after(kRest);
  const std::string what = named(ended->due.pair);
  const auto outcome = outcome_of(*ended);
  const bool given_up = !ended->figures && ended->figures.error().code == ErrorCode::cancelled;
  if (given_up)
    spdlog::info("measuring was given up, there is something else to do | {}", what);
  else if (ended->figures)
    spdlog::info("measured | {}", what);
  else if (outcome == IdlePlan::Outcome::no_room)
    spdlog::info("not measured for now: {} | {}", describe(ended->figures.error()), what);
  else
    spdlog::warn("could not be measured: {} | {}", describe(ended->figures.error()), what);
  if (!given_up || lender_said_) plan_.tried(ended->due, outcome, host_.now());
  if (ended->figures) host_.keep(ended->subject, std::move(*ended->figures));
  host_.look_after(kLook);
}

}  // namespace flyball::calibrate
