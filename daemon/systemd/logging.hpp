// Where spdlog's default logger writes: to the journal with fields when stderr is the journal
// (JOURNAL_STREAM), else readable lines on stderr. Fields: a message may end in " | key=value key=value"; in
// the journal each becomes FLYBALL_<KEY>, for `journalctl FLYBALL_REQUEST_ID=...`. Values hold no spaces.
// Lines are written by a thread (log_writer.hpp); only an exit and an abort wait for it, for a bounded time.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flyball::systemd {

// `level`: trace, debug, info, warn(ing), err(or), critical, off. Unknown: info. Called again, the lines of
// the former logger are written first.
void set_up_logging(std::string_view level);
void set_log_level(std::string_view level);

// Whether stderr is the journal: JOURNAL_STREAM names its device and inode.
bool stderr_is_journal();

struct LogLine {
  std::string_view message;
  std::vector<std::pair<std::string, std::string_view>> fields;  // "FLYBALL_REQUEST_ID", value
};
LogLine split_fields(std::string_view payload);

}  // namespace flyball::systemd
