#include "daemon/systemd/logging.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/sink.h>
#include <spdlog/spdlog.h>

#include "daemon/systemd/log_writer.hpp"

namespace flyball::systemd {
namespace {

constexpr std::string_view kFieldMark = " | ";
constexpr std::size_t kMaxFields = 24;

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

// 0, or the error's number.
int send_to_journal(const LogEntry& entry) {
  const LogLine line = split_fields(entry.text);
  std::vector<std::string> lines{"MESSAGE=" + std::string(line.message),
                                 "PRIORITY=" + std::to_string(priority_of(entry.level)),
                                 "SYSLOG_IDENTIFIER=flyball"};
  for (const auto& [key, value] : line.fields) lines.push_back(key + "=" + std::string(value));
  std::vector<iovec> parts;
  for (std::string& l : lines) parts.push_back({l.data(), l.size()});
  return -std::min(0, sd_journal_sendv(parts.data(), static_cast<int>(parts.size())));
}

// Readable lines, the level in colour on a terminal. Goes past stdio, whose locks would make others wait for
// a write that hangs.
class StderrLines {
 public:
  StderrLines()
      : format_(std::make_shared<spdlog::pattern_formatter>("%Y-%m-%d %H:%M:%S.%e %^%-7l%$ %v")),
        colours_(isatty(STDERR_FILENO) == 1) {}

  int operator()(const LogEntry& entry) const {
    spdlog::details::log_msg message(entry.time, {}, "flyball", entry.level, entry.text);
    spdlog::memory_buf_t text;
    format_->format(message, text);
    std::string line(text.data(), text.size());
    if (colours_) {
      line.insert(message.color_range_end, "\033[m");
      line.insert(message.color_range_start, colour_of(entry.level));
    }
    return write_whole(line);
  }

 private:
  static const char* colour_of(spdlog::level::level_enum level) {
    switch (level) {
      case spdlog::level::critical:
        return "\033[1m\033[41m";
      case spdlog::level::err:
        return "\033[31m\033[1m";
      case spdlog::level::warn:
        return "\033[33m\033[1m";
      case spdlog::level::info:
        return "\033[32m";
      default:
        return "\033[36m";
    }
  }
  static int write_whole(std::string_view line) {
    while (!line.empty()) {
      const ssize_t n = ::write(STDERR_FILENO, line.data(), line.size());
      if (n >= 0) {
        line.remove_prefix(static_cast<std::size_t>(n));
      } else if (errno == EAGAIN) {  // another program has made it non-blocking
        pollfd room{STDERR_FILENO, POLLOUT, 0};
        ::poll(&room, 1, -1);
      } else if (errno != EINTR) {
        return errno;
      }
    }
    return 0;
  }

  std::shared_ptr<spdlog::pattern_formatter> format_;
  bool colours_;
};

class QueueSink final : public spdlog::sinks::sink {
 public:
  explicit QueueSink(LogWriter::Write write) : writer_(std::move(write)) {}
  void log(const spdlog::details::log_msg& message) override {
    writer_.post({message.level, message.time, std::string(message.payload.data(), message.payload.size())});
  }
  void flush() override { wait_for_log(); }
  // The writer has its own form.
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

 private:
  LogWriter writer_;
};

// Lines logged before a broken invariant leave before the process does.
void on_abort(int) {
  wait_for_log();
}

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

void set_log_level(std::string_view level) {
  const auto parsed = spdlog::level::from_str(std::string(level));
  // from_str answers `off` for what it does not know.
  spdlog::set_level(parsed == spdlog::level::off && level != "off" ? spdlog::level::info : parsed);
}

void set_up_logging(std::string_view level) {
  auto sink = std::make_shared<QueueSink>(stderr_is_journal() ? LogWriter::Write(send_to_journal)
                                                              : LogWriter::Write(StderrLines()));
  auto logger = std::make_shared<spdlog::logger>("flyball", std::move(sink));
  spdlog::set_default_logger(std::move(logger));
  set_log_level(level);
  std::signal(SIGABRT, on_abort);
}

}  // namespace flyball::systemd
