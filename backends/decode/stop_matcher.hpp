// Stop strings in a text that arrives in pieces. Releases everything that can no longer be part of a stop
// string, and the text before the stop string that completes first, however the text was cut into tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flyball::decode {

class StopMatcher {
 public:
  StopMatcher() = default;
  // Non-empty strings that begin at a character's first byte.
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  struct Released {
    std::string text;
    const std::string* stop =
        nullptr;  // the string that matched; then all is over. Valid as long as the matcher
  };
  // Whole characters in, whole characters out. Precondition: no match before.
  Released push(std::string_view text);
  // The end of the text: what was held back.
  std::string finish();

 private:
  std::vector<std::string> stops_;
  std::string held_;  // a proper prefix of some stop string
};

}  // namespace flyball::decode
