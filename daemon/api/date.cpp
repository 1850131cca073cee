#include "daemon/api/date.hpp"

#include <array>
#include <ctime>

namespace flyball::api {

std::string rfc3339(std::int64_t seconds) {
  const auto at = static_cast<std::time_t>(seconds);
  std::tm utc{};
  std::array<char, 32> text{};
  if (gmtime_r(&at, &utc) == nullptr) return "1970-01-01T00:00:00Z";
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

}  // namespace flyball::api
