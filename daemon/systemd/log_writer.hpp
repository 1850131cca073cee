// The bounded queue of log lines and the thread that writes them: whoever logs never waits for the reader of
// stderr, a disk or the journal. spdlog's own asynchronous logger waits for them when it ends, for ever.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <spdlog/common.h>

namespace flyball::systemd {

struct LogEntry {
  spdlog::level::level_enum level = spdlog::level::info;
  spdlog::log_clock::time_point time;
  std::string text;
};

// Lines that are missing from the log: the queue was full, or a write failed. Once lines can be written again
// a warning says how many are missing, at most one a minute.
class LostLines {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::minutes kBetweenWarnings{1};
  struct Warning {
    std::string text;
    std::uint64_t lines = 0;  // that it tells of
  };

  void lost(std::string why) noexcept;
  bool any() const noexcept { return lost_ > 0; }
  // The warning that is due; it stays due until it is told. `last`: the log ends, so that none waits.
  std::optional<Warning> warning(TimePoint now, bool last = false) const;
  void told(const Warning& warning, TimePoint now) noexcept;

 private:
  std::uint64_t lost_ = 0;
  std::string why_;  // of the latest
  std::optional<TimePoint> warned_at_;
};

class LogWriter {
 public:
  // Writes one line, however long it takes. 0, or the error's number.
  using Write = std::function<int(const LogEntry&)>;
  // Some 11,000 request lines beside those of warnings: a reader may pause for a second without a loss.
  static constexpr std::size_t kQueueBytes = 4U << 20;
  // How long an end waits for lines to leave: longer than any reader that works, shorter than a person
  // notices.
  static constexpr std::chrono::milliseconds kLastWait{1000};

  explicit LogWriter(Write write, std::size_t queue_bytes = kQueueBytes);
  // Waits for the queue to empty, kLastWait at most. A thread that hangs in a write then is left behind, with
  // all that it uses: the end of the process ends it.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Any thread. Where the queue is full the line is dropped and counted; the last quarter of it is for
  // warnings and errors, which no flood of other lines displaces.
  void post(LogEntry entry);

 private:
  struct State;
  const std::shared_ptr<State> state_;
  std::thread thread_;
};

// Waits until every line that this process has posted is written or given up, `within` at most. Whether it
// is so. Async-signal-safe.
bool wait_for_log(std::chrono::milliseconds within = LogWriter::kLastWait) noexcept;

// Lines lost since this process began.
std::uint64_t lost_log_lines() noexcept;

}  // namespace flyball::systemd
