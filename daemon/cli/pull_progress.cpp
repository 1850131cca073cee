#include "daemon/cli/pull_progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "config/units.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/hub/url.hpp"

namespace flyball::cli {
namespace {

constexpr std::chrono::milliseconds kBetweenDraws{100};
// A rate of less time says nothing.
constexpr std::chrono::milliseconds kEnoughTime{500};
constexpr std::size_t kUsualColumns = 80;  // of a terminal that does not tell

std::size_t columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualColumns;
}

}  // namespace

std::string progress_line(std::uint64_t have, std::uint64_t total, std::uint64_t arrived,
                          std::chrono::milliseconds time) {
  std::string out;
  if (total > 0) {
    const unsigned percent =
        static_cast<unsigned>(100.0 * static_cast<double>(have) / static_cast<double>(total));
    char text[16];
    std::snprintf(text, sizeof text, "%3u %%  ", percent > 100 ? 100 : percent);
    out += text;
  }
  out += config::size_text(have) + (total > 0 ? " of " + config::size_text(total) : "");
  if (time < kEnoughTime || arrived == 0) return out;
  const double rate = 1000.0 * static_cast<double>(arrived) / static_cast<double>(time.count());
  out += "  " + config::size_text(static_cast<std::uint64_t>(rate)) + "/s";
  if (total > have && rate >= 1)
    out += "  " +
           config::time_text(static_cast<std::int64_t>(static_cast<double>(total - have) / rate + 0.5) *
                             1'000'000) +
           " left";
  return out;
}

std::string cut_to(std::string line, std::size_t columns) {
  std::size_t at = 0;
  for (std::size_t shown = 0; at < line.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(line[at]) & 0xC0U) != 0x80U;
    if (begins && shown++ == columns) break;
  }
  line.resize(at);
  return line;
}

PullProgress::PullProgress(Style style, const std::vector<hub::Item>& items) : style_(style) {
  for (const hub::Item& item : items) {
    if (!item.expected.size) {
      total_ = 0;
      return;
    }
    total_ += *item.expected.size;
  }
}

hub::Watcher PullProgress::watcher() {
  return {[this](const hub::Item& item, std::uint64_t bytes, bool arriving) { at(item, bytes, arriving); },
          [this](const std::string& note) { says(note); }};
}

void PullProgress::at(const hub::Item& item, std::uint64_t bytes, bool arriving) {
  std::uint64_t& have = have_[item.file];
  if (arriving && bytes > have) arrived_ += bytes - have;
  have = bytes;
  if (const std::string name = terminal_text(item.file.filename().string()); name != file_) {
    file_ = name;
    if (style_ == Style::lines)
      std::fprintf(stderr, "%s%s%s\n", name.c_str(), item.expected.size ? ": " : "",
                   item.expected.size ? config::size_text(*item.expected.size).c_str() : "");
  }
  if (style_ == Style::bar && Clock::now() - drawn_ >= kBetweenDraws) draw();
}

void PullProgress::draw() {
  std::uint64_t have = 0;
  for (const auto& [file, bytes] : have_) have += bytes;
  const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun_);
  drawn_ = Clock::now();
  drawn_once_ = true;
  // A line that fills the last column would begin another one. The rest of the line before is wiped. No
  // progress is worth a failed command: the result is not looked at.
  const std::string line = progress_line(have, total_, arrived_, time) + "  " + file_;
  std::fprintf(stderr, "\r%s\033[K", cut_to(line, columns() - 1).c_str());
  std::fflush(stderr);
}

void PullProgress::says(const std::string& note) {
  if (style_ == Style::none) return;
  std::fprintf(stderr, "%s%s\n", drawn_once_ ? "\r\033[K" : "", terminal_text(note).c_str());
}

void PullProgress::end() {
  if (style_ == Style::bar && drawn_once_) {
    draw();
    std::fputc('\n', stderr);
  }
  style_ = Style::none;
}

}  // namespace flyball::cli
