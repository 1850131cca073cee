// Which refusals the log has whole: of each app and code the first in a second. The others of that second are
// counted and told in one line, so that a flood of refused requests is no flood of lines. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/error.hpp"

namespace flyball::api {

class RefusalLog {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kSpan{1};
  // Pairs of app and code in one span. Refusals of further apps are counted together, as kOtherApps.
  static constexpr std::size_t kMaxKeys = 1024;
  static constexpr std::string_view kOtherApps = "others";

  struct Counted {
    std::string app;
    ErrorCode code;
    std::uint64_t count = 0;  // beside the one that was logged whole
  };

  // Whether the log has this one whole; false: it is counted. Precondition: ended(now) was asked before.
  bool whole(std::string_view app, ErrorCode code, TimePoint now);
  // Takes the counts of the spans that have ended.
  std::vector<Counted> ended(TimePoint now);
  // The end of the span that ends next.
  std::optional<TimePoint> next_end() const;

 private:
  struct Span {
    TimePoint ends;
    std::uint64_t count = 0;
  };
  std::map<std::pair<std::string, ErrorCode>, Span> spans_;
};

}  // namespace flyball::api
