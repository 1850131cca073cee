#include "daemon/systemd/logging.hpp"

#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <system_error>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace flyball::systemd {
namespace {

constexpr std::string_view kFieldMark = " | ";
constexpr std::size_t kMaxFields = 24;
constexpr std::chrono::minutes kBetweenLossWarnings{1};

int priority_of(spdlog::level::level_enum level) {  // syslog(3)
  switch (level) {
    case spdlog::level::critical:
      return 2;
    case spdlog::level::err:
      return 3;
    case spdlog::level::warn:
      return 4;
    case spdlog::level::info:
      return 6;
    default:
      return 7;
  }
}

using spdlog::details::log_msg;
using Console = spdlog::sinks::stderr_color_sink_mt;

// Writes a line, and after one that could be written what was lost before. `write`: 0, or the error's number.
template <class Write>
void write_line(const log_msg& message, LostLines& lost, Write write) {
  if (const int error = write(message); error != 0) return lost.lost(error);
  const auto now = std::chrono::steady_clock::now();
  const auto warning = lost.warning(now);
  if (warning && write(log_msg("flyball", spdlog::level::warn, *warning)) == 0) lost.told(now);
}

class JournalSink final : public spdlog::sinks::base_sink<std::mutex> {
  void sink_it_(const log_msg& message) override { write_line(message, lost_, send); }
  void flush_() override {}

  static int send(const log_msg& message) {
    const LogLine line = split_fields({message.payload.data(), message.payload.size()});
    std::vector<std::string> lines{"MESSAGE=" + std::string(line.message),
                                   "PRIORITY=" + std::to_string(priority_of(message.level)),
                                   "SYSLOG_IDENTIFIER=flyball"};
    for (const auto& [key, value] : line.fields) lines.push_back(key + "=" + std::string(value));
    std::vector<iovec> parts;
    for (std::string& l : lines) parts.push_back({l.data(), l.size()});
    return -std::min(0, sd_journal_sendv(parts.data(), static_cast<int>(parts.size())));
  }

  LostLines lost_;
};

class StderrSink final : public Console {
 public:
  void log(const log_msg& message) override {
    const std::scoped_lock lock(mutex_);
    write_line(message, lost_, [this](const log_msg& line) {
      clearerr(stderr);
      Console::log(line);
      return ferror(stderr) != 0 ? errno : 0;  // stderr has no buffer: it is of this line
    });
  }

 private:
  std::mutex mutex_;
  LostLines lost_;
};

}  // namespace

bool stderr_is_journal() {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat s {};
  if (stream == nullptr || fstat(STDERR_FILENO, &s) != 0) return false;
  return std::to_string(s.st_dev) + ":" + std::to_string(s.st_ino) == stream;
}

LogLine split_fields(std::string_view payload) {
  const std::size_t mark = payload.rfind(kFieldMark);
  if (mark == std::string_view::npos) return {payload, {}};
  LogLine line{payload.substr(0, mark), {}};
  std::string_view rest = payload.substr(mark + kFieldMark.size());
  while (!rest.empty()) {
    const std::size_t space = std::min(rest.find(' '), rest.size());
    const std::string_view pair = rest.substr(0, space);
    rest.remove_prefix(std::min(space + 1, rest.size()));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0 || line.fields.size() == kMaxFields)
      return {payload, {}};
    std::string key = "FLYBALL_";
    for (const char c : pair.substr(0, equals)) {
      if (c >= 'a' && c <= 'z') {
        key += static_cast<char>(c - 'a' + 'A');
      } else if ((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_') {
        key += c;
      } else {
        return {payload, {}};  // not fields: a message that happens to hold the mark
      }
    }
    line.fields.emplace_back(std::move(key), pair.substr(equals + 1));
  }
  return line;
}

void LostLines::lost(int error_number) noexcept {
  ++lost_;
  error_number_ = error_number;
}

std::optional<std::string> LostLines::warning(TimePoint now) const {
  if (lost_ == 0 || (warned_at_ && now - *warned_at_ < kBetweenLossWarnings)) return std::nullopt;
  return "the log could not be written, lines lost: " + std::to_string(lost_) + "; " +
         std::generic_category().message(error_number_);
}

void LostLines::told(TimePoint now) noexcept {
  lost_ = 0;
  warned_at_ = now;
}

void set_log_level(std::string_view level) {
  const auto parsed = spdlog::level::from_str(std::string(level));
  // from_str answers `off` for what it does not know.
  spdlog::set_level(parsed == spdlog::level::off && level != "off" ? spdlog::level::info : parsed);
}

void set_up_logging(std::string_view level) {
  std::shared_ptr<spdlog::logger> logger;
  if (stderr_is_journal()) {
    logger = std::make_shared<spdlog::logger>("flyball", std::make_shared<JournalSink>());
  } else {
    logger = std::make_shared<spdlog::logger>("flyball", std::make_shared<StderrSink>());
    logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%-7l%$ %v");
  }
  spdlog::set_default_logger(std::move(logger));
  set_log_level(level);
  spdlog::flush_on(spdlog::level::info);
}

}  // namespace flyball::systemd
