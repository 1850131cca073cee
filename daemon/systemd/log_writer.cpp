#include "daemon/systemd/log_writer.hpp"

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace flyball::systemd {
namespace {

// Counts of the process, because a signal handler asks for them: lines on their way, and lost lines.
std::atomic<std::uint64_t> unwritten{0}, lost_lines{0};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

constexpr std::string_view kQueueFull = "its queue was full, because they were written too slowly";

std::size_t bytes_of(const LogEntry& entry) noexcept {
  return sizeof entry + entry.text.size();
}

}  // namespace

void LostLines::lost(std::string why) noexcept {
  ++lost_;
  why_ = std::move(why);
}

std::optional<LostLines::Warning> LostLines::warning(TimePoint now, bool last) const {
  if (lost_ == 0 || (!last && warned_at_ && now - *warned_at_ < kBetweenWarnings)) return std::nullopt;
  return Warning{"the log could not be written, lines lost: " + std::to_string(lost_) + "; " + why_, lost_};
}

void LostLines::told(const Warning& warning, TimePoint now) noexcept {
  lost_ -= warning.lines;
  warned_at_ = now;
}

struct LogWriter::State {
  State(Write w, std::size_t size) : write(std::move(w)), queue_bytes(size) {}

  void loop();
  void write_first(std::unique_lock<std::mutex>& lock);
  void tell_lost(std::unique_lock<std::mutex>& lock, bool last);
  void count_lost(std::string why) {
    lost.lost(std::move(why));
    lost_lines.fetch_add(1, std::memory_order_relaxed);
  }

  const Write write;  // called by the thread alone
  const std::size_t queue_bytes;
  std::mutex mutex;
  std::condition_variable wake, over;
  std::deque<LogEntry> queue;
  std::size_t bytes = 0, lines = 0;  // of the queue and of the line that is being written
  LostLines lost;
  bool ending = false, ended = false, abandoned = false;
};

void LogWriter::State::loop() {
  std::unique_lock lock(mutex);
  while (!abandoned) {
    const auto called = [&] { return ending || !queue.empty(); };
    if (lost.any())
      wake.wait_for(lock, LostLines::kBetweenWarnings, called);
    else
      wake.wait(lock, called);
    if (!queue.empty()) {
      write_first(lock);
      continue;
    }
    tell_lost(lock, ending);
    if (ending && queue.empty()) break;
  }
  ended = true;
  over.notify_all();
}

void LogWriter::State::write_first(std::unique_lock<std::mutex>& lock) {
  const LogEntry entry = std::move(queue.front());
  queue.pop_front();
  lock.unlock();
  const int error = write(entry);
  lock.lock();
  if (error != 0)
    count_lost(std::generic_category().message(error));
  else
    tell_lost(lock, false);
  if (abandoned) return;
  bytes -= bytes_of(entry);
  --lines;
  unwritten.fetch_sub(1, std::memory_order_release);
}

void LogWriter::State::tell_lost(std::unique_lock<std::mutex>& lock, bool last) {
  const auto now = std::chrono::steady_clock::now();
  const auto warning = lost.warning(now, last);
  if (!warning) return;
  lock.unlock();
  const int error = write({spdlog::level::warn, spdlog::log_clock::now(), warning->text});
  lock.lock();
  if (error == 0) lost.told(*warning, now);
}

LogWriter::LogWriter(Write write, std::size_t queue_bytes)
    : state_(std::make_shared<State>(std::move(write), queue_bytes)) {
  // Signals go to the threads that expect them: none interrupts a write.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([state = state_] { state->loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LogWriter::~LogWriter() {
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->wake.notify_all();
  const bool ended = state_->over.wait_for(lock, kLastWait, [&] { return state_->ended; });
  if (!ended) {
    state_->abandoned = true;
    unwritten.fetch_sub(state_->lines, std::memory_order_release);
  }
  lock.unlock();
  if (ended)
    thread_.join();
  else
    thread_.detach();
}

void LogWriter::post(LogEntry entry) {
  const std::size_t size = bytes_of(entry);
  const std::scoped_lock lock(state_->mutex);
  const std::size_t room =
      state_->queue_bytes - (entry.level < spdlog::level::warn ? state_->queue_bytes / 4 : 0);
  if (state_->bytes + size > room) return state_->count_lost(std::string(kQueueFull));
  state_->bytes += size;
  ++state_->lines;
  unwritten.fetch_add(1, std::memory_order_relaxed);
  state_->queue.push_back(std::move(entry));
  state_->wake.notify_one();
}

bool wait_for_log(std::chrono::milliseconds within) noexcept {
  constexpr timespec kLook{0, 1'000'000};
  for (auto left = within.count();; --left) {
    if (unwritten.load(std::memory_order_acquire) == 0) return true;
    if (left <= 0) return false;
    nanosleep(&kLook, nullptr);
  }
}

std::uint64_t lost_log_lines() noexcept {
  return lost_lines.load(std::memory_order_relaxed);
}

}  // namespace flyball::systemd
