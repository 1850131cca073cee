// Where spdlog's default logger writes: to the journal with fields when stderr is the journal
// (JOURNAL_STREAM), else readable lines on stderr. Fields: a message may end in " | key=value key=value"; in
// the journal each becomes FLYBALL_<KEY>, for `journalctl FLYBALL_REQUEST_ID=...`. Values hold no spaces.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flyball::systemd {

// `level`: trace, debug, info, warn(ing), err(or), critical, off. Unknown: info.
void set_up_logging(std::string_view level);
void set_log_level(std::string_view level);

// Whether stderr is the journal: JOURNAL_STREAM names its device and inode.
bool stderr_is_journal();

struct LogLine {
  std::string_view message;
  std::vector<std::pair<std::string, std::string_view>> fields;  // "FLYBALL_REQUEST_ID", value
};
LogLine split_fields(std::string_view payload);

// Lines that could not be written (a full disk): nothing waits for them, and once lines can be written again
// one says how many are missing, at most one a minute.
class LostLines {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  void lost(int error_number) noexcept;
  // After a line that was written: the warning that is due now, until it was written too.
  std::optional<std::string> warning(TimePoint now) const;
  void told(TimePoint now) noexcept;

 private:
  std::uint64_t lost_ = 0;
  int error_number_ = 0;  // of the latest
  std::optional<TimePoint> warned_at_;
};

}  // namespace flyball::systemd
