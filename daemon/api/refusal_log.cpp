#include "daemon/api/refusal_log.hpp"

#include <algorithm>

namespace flyball::api {

bool RefusalLog::whole(std::string_view app, ErrorCode code, TimePoint now) {
  std::pair key(std::string(app), code);
  auto span = spans_.find(key);
  if (span == spans_.end() && spans_.size() >= kMaxKeys) {
    key.first = kOtherApps;
    span = spans_.find(key);
  }
  if (span != spans_.end()) {
    ++span->second.count;
    return false;
  }
  spans_.emplace(std::move(key), Span{now + kSpan});
  return true;
}

std::vector<RefusalLog::Counted> RefusalLog::ended(TimePoint now) {
  std::vector<Counted> out;
  std::erase_if(spans_, [&](const auto& entry) {
    const auto& [key, span] = entry;
    if (now < span.ends) return false;
    if (span.count > 0) out.push_back({key.first, key.second, span.count});
    return true;
  });
  return out;
}

std::optional<RefusalLog::TimePoint> RefusalLog::next_end() const {
  if (spans_.empty()) return std::nullopt;
  return std::ranges::min_element(spans_, {}, [](const auto& entry) { return entry.second.ends; })
      ->second.ends;
}

}  // namespace flyball::api
