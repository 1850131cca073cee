// The time of day as the Date field has it. No I/O but the clock's.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace flyball::http {

// IMF-fixdate, RFC 9110, section 5.6.7: "Sun, 06 Nov 1994 08:49:37 GMT", in English whatever the locale.
// `seconds` since the epoch, of the years 1 to 9999.
std::string imf_fixdate(std::chrono::sys_seconds seconds);

// The value of the Date field of an answer that is written now; valid until the next call.
using Date = std::function<std::string_view()>;

// The system clock's time, formatted once a second. One thread's.
class DateClock {
 public:
  std::string_view now();

 private:
  std::chrono::sys_seconds second_{};
  std::string text_;  // of that second; "" before the first call
};

}  // namespace flyball::http
