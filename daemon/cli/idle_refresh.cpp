#include "daemon/cli/idle_refresh.hpp"

#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "backends/cpu/thread_pool.hpp"
#include "daemon/cli/terminal.hpp"

namespace flyball::cli {
namespace {

using std::chrono::steady_clock;

// Others work here, too: what is measured beside them is no figure of this machine.
bool others_work(std::uint32_t max_load_percent) {
  double load = 0;
  return getloadavg(&load, 1) == 1 &&
         load * 100 > static_cast<double>(max_load_percent) * cpu::usable_processors();
}

// Until the file, or what is said of it, is another.
bool for_good(ErrorCode code) {
  return code == ErrorCode::model_invalid || code == ErrorCode::model_unsupported ||
         code == ErrorCode::invalid_value || code == ErrorCode::unsupported_value;
}

}  // namespace

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
    : io_(io), host_(std::move(host)), plan_(steady_clock::now()), timer_(io) {}

void IdleRefresh::set(const config::CalibrateRules& rules) {
  rules_ = rules;
  if (measuring_ || stopped_) return;  // the watch goes on, and a look follows it
  timer_.cancel();
  if (rules_.idle.count() > 0) look_after(kLook);
}

void IdleRefresh::stop() {
  stopped_ = true;
  timer_.cancel();
  thread_.request_stop();
}

void IdleRefresh::look_after(std::chrono::milliseconds delay) {
  timer_.expires_after(delay);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && !stopped_) look();
  });
}

void IdleRefresh::look() {
  const auto now = steady_clock::now();
  const bool idle = plan_.idle(now, host_.busy(), rules_.idle);
  if (measuring_) {
    if (!idle || rules_.idle.count() == 0) thread_.request_stop();
    return look_after(kWatch);
  }
  if (rules_.idle.count() == 0) return;
  if (!idle || others_work(rules_.max_load)) return look_after(kLook);
  std::vector<Work> works = host_.due();
  std::vector<IdlePlan::Due> due;
  for (const Work& work : works) due.push_back(work.due);
  const auto next = plan_.next(due, now);
  if (!next) return look_after(kRest);
  begin(std::move(works[*next]));
}

void IdleRefresh::begin(Work work) {
  spdlog::info("measuring, for nothing was asked for a while | model={} backend={}", work.due.pair.first,
               work.due.pair.second);
  measuring_ = true;
  given_back_ = false;
  thread_ = std::jthread([this, work = std::move(work)](const std::stop_token& stop) {
    boost::asio::post(io_, [this, due = work.due, measured = measured(work, stop)]() mutable {
      ended(due, std::move(measured));
    });
  });
  look_after(kWatch);
}

IdleRefresh::Measured IdleRefresh::measured(const Work& work, const std::stop_token& stop) {
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
  Measured measured{measure::subject_of(work.engine, digests_.of(work.model), work.model), {}};
  measured.figures = measure_in_child(measuring, measured.subject, stop);
  return measured;
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
    auto loan = host_.lend(work, need, [this](const std::string& why) {
      spdlog::info("what is measured ends: {}", why);
      // Ended for a request already: it is begun anew when the machine is idle again.
      given_back_ = given_back_ || !thread_.get_stop_token().stop_requested();
      thread_.request_stop();
    });
    const std::lock_guard lock(answer->mutex);
    answer->kv_bytes = loan ? Result<std::uint64_t>((*loan)->kv_bytes()) : pass(loan);
    if (loan) loan_ = std::move(*loan);
    answer->come.notify_one();
  });
  std::unique_lock lock(answer->mutex);
  if (!answer->come.wait(lock, stop, [&] { return answer->kv_bytes.has_value(); }))
    return fail(ErrorCode::cancelled, "Something else was to be done.");
  return *answer->kv_bytes;
}

void IdleRefresh::ended(const IdlePlan::Due& due, Measured measured) {
  using Outcome = IdlePlan::Outcome;
  measuring_ = false;
  loan_.reset();  // its process is gone
  if (stopped_) return;
  const auto& [model, backend] = due.pair;
  const auto tried = [&](Outcome outcome) { plan_.tried(due, outcome, steady_clock::now()); };
  if (measured.figures) {
    spdlog::info("measured | model={} backend={}", model, backend);
    tried(Outcome::measured);
    host_.keep(measured.subject, std::move(*measured.figures));
  } else if (const Error& error = measured.figures.error(); error.code == ErrorCode::cancelled) {
    spdlog::info("measuring was given up, there is something else to do | model={} backend={}", model,
                 backend);
    if (given_back_) tried(Outcome::no_room);
  } else if (error.code == ErrorCode::insufficient_memory) {
    spdlog::info("not measured for now: {} | model={} backend={}", describe(error), model, backend);
    tried(Outcome::no_room);
  } else {
    spdlog::warn("could not be measured: {} | model={} backend={}", describe(error), model, backend);
    tried(for_good(error.code) ? Outcome::refused : Outcome::failed);
  }
  look_after(kLook);
}

}  // namespace flyball::cli
