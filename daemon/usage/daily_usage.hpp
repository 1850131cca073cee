// What each app used on each day (UTC): requests and tokens, and what its requests were like. The daemon's
// days are kept in memory; what changed is handed out to be stored. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/usage/histogram.hpp"

namespace flyball::usage {

struct DayUsage {
  std::uint64_t requests = 0;               // that ended
  std::uint64_t refused = 0;                // by limits, or because the daemon was full; not in `requests`
  std::uint64_t errors = 0, cancelled = 0;  // of the requests
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  std::uint64_t guessed_tokens = 0;  // of prompts that nobody counted: tokens_per_day counts them, too
  std::uint64_t streamed = 0, with_tools = 0;                // of the requests
  Histogram prompt_lengths, cached_lengths, answer_lengths;  // tokens, of requests that were answered
  Histogram open_at_arrival;  // answers in flight, the request's own among them

  std::uint64_t charged_tokens() const noexcept { return prompt_tokens + generated_tokens + guessed_tokens; }
  DayUsage& operator+=(const DayUsage& other);
};

struct AppDay {
  std::string app;
  std::int64_t day = 0;  // since the epoch
  DayUsage usage;
};

// The apps' days as known when the daemon starts.
struct Past {
  std::vector<AppDay> days;
  // Days of which the store should know and cannot be read: what the app used then is unknown, not nothing.
  std::vector<std::pair<std::string, std::int64_t>> lost;  // app, day
};

class DailyUsage {
 public:
  static constexpr std::int64_t kKeptDays = 7;
  using Key = std::pair<std::string, std::int64_t>;  // app, day

  // To be changed in place by what happens; it is stored with the next take_changed().
  DayUsage& change(const std::string& app, std::int64_t day);
  const DayUsage* find(const std::string& app, std::int64_t day) const;
  const std::map<Key, DayUsage>& days() const noexcept { return days_; }
  // As it was stored.
  void restore(AppDay row);
  // The apps' use of these days is unknown.
  void lose(std::set<Key> days) { lost_ = std::move(days); }
  const std::set<Key>& lost() const noexcept { return lost_; }
  bool changed() const noexcept { return !changed_.empty(); }
  // Whole rows, each to replace the stored one. Of more than the latest kKeptDays + 1 days the oldest are
  // forgotten here: nothing that still runs is of them. By count, for a clock may be wrong for a while.
  std::vector<AppDay> take_changed();
  // They could not be stored: their days have changed still.
  void put_back(const std::vector<AppDay>& rows);

 private:
  std::map<Key, DayUsage> days_;
  std::set<Key> changed_, lost_;
};

}  // namespace flyball::usage
