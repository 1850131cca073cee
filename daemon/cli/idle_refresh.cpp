#include "daemon/cli/idle_refresh.hpp"

#include <cstdlib>

#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "backends/cpu/thread_pool.hpp"

namespace flyball::cli {
namespace {

using std::chrono::steady_clock;

// Others work here, too: what is measured beside them is no figure of this machine.
bool others_work(std::uint32_t max_load_percent) {
  double load = 0;
  return getloadavg(&load, 1) == 1 &&
         load * 100 > static_cast<double>(max_load_percent) * cpu::usable_processors();
}

}  // namespace

bool IdlePlan::idle(TimePoint now, bool busy, std::chrono::milliseconds after) {
  if (busy) busy_at_ = now;
  return !busy && now - busy_at_ >= after;
}

std::optional<IdlePlan::Pair> IdlePlan::next(std::span<const Pair> due, TimePoint now) const {
  for (const Pair& pair : due) {
    const auto before = tried_.find(pair);
    if (before == tried_.end() || now - before->second >= kRetry) return pair;
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
  if (idle && !others_work(rules_.max_load))
    if (const auto pair = plan_.next(host_.due(), now)) {
      auto work = host_.prepare(*pair);
      if (work) return begin(*pair, std::move(*work));
      plan_.tried(*pair, now);
    }
  look_after(kLook);
}

void IdleRefresh::begin(const IdlePlan::Pair& pair, Work work) {
  spdlog::info("measuring, for nothing was asked for a while | model={} backend={}", pair.first, pair.second);
  measuring_ = true;
  thread_ = std::jthread([this, pair, work = std::move(work)](const std::stop_token& stop) {
    Measured measured{measure::subject_of(work.measuring.engine, digests_.of(work.model), work.model), {}};
    measured.figures = measure_in_child(work.measuring, measured.subject, stop);
    boost::asio::post(
        io_, [this, pair, measured = std::move(measured)]() mutable { ended(pair, std::move(measured)); });
  });
  look_after(kWatch);
}

void IdleRefresh::ended(const IdlePlan::Pair& pair, Measured measured) {
  measuring_ = false;
  if (stopped_) return;
  if (measured.figures) {
    spdlog::info("measured | model={} backend={}", pair.first, pair.second);
    plan_.tried(pair, steady_clock::now());
    host_.keep(measured.subject, std::move(*measured.figures));
  } else if (measured.figures.error().code == ErrorCode::cancelled) {
    spdlog::info("measuring was given up, there is something else to do | model={} backend={}", pair.first,
                 pair.second);
  } else {
    spdlog::warn("could not be measured: {} | model={} backend={}", measured.figures.error().message,
                 pair.first, pair.second);
    plan_.tried(pair, steady_clock::now());
  }
  look_after(kLook);
}

}  // namespace flyball::cli
