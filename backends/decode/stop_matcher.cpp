#include "backends/decode/stop_matcher.hpp"

#include <algorithm>
#include <utility>

namespace flyball::decode {

StopMatcher::Released StopMatcher::push(std::string_view text) {
  Released out;
  if (stops_.empty()) {
    out.text = text;
    return out;
  }
  held_ += text;

  // The match that ends first, as if the text came byte by byte; of those the longest.
  std::size_t best_begin = 0;
  std::size_t best_end = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t begin = held_.find(stop);
    if (begin == std::string::npos) continue;
    const std::size_t end = begin + stop.size();
    if (end < best_end || (end == best_end && begin < best_begin)) {
      best_begin = begin;
      best_end = end;
      out.stop = &stop;
    }
  }
  if (out.stop != nullptr) {
    out.text = held_.substr(0, best_begin);
    held_.clear();
    return out;
  }

  std::size_t keep = 0;  // the longest tail that a stop string begins with
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(held_.size(), stop.size() - 1); n > keep; --n) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, n))) {
        keep = n;
        break;
      }
    }
  }
  out.text = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.text.size());
  return out;
}

std::string StopMatcher::finish() {
  return std::exchange(held_, {});
}

}  // namespace flyball::decode
