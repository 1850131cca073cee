// The progress of a set of files, on stderr: a line that is drawn again where a person looks, else a line for
// each file.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "daemon/hub/download.hpp"

namespace flyball::cli {

// "  62 %  380 of 610 MiB  41.2 MiB/s  5 s left". Unknown totals and rates are left out. Pure.
std::string progress_line(std::uint64_t have, std::uint64_t total, std::uint64_t arrived,
                          std::chrono::milliseconds time);

// The first `columns` characters of a line, each of which takes one column. Pure.
std::string cut_to(std::string line, std::size_t columns);

class PullProgress {
 public:
  enum class Style : std::uint8_t { none, lines, bar };
  PullProgress(Style style, const std::vector<hub::Item>& items);
  ~PullProgress() { end(); }
  PullProgress(const PullProgress&) = delete;
  PullProgress& operator=(const PullProgress&) = delete;

  hub::Watcher watcher();
  void end();  // leaves the last line as it is

 private:
  using Clock = std::chrono::steady_clock;
  void at(const hub::Item& item, std::uint64_t bytes, bool arriving);
  void says(const std::string& note);
  void draw();

  Style style_;
  std::uint64_t total_ = 0;  // 0: not known
  std::map<std::filesystem::path, std::uint64_t> have_;
  std::uint64_t arrived_ = 0;
  std::string file_;  // that is on its way
  Clock::time_point begun_ = Clock::now(), drawn_;
  bool drawn_once_ = false;
};

}  // namespace flyball::cli
