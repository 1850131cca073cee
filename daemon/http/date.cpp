#include "daemon/http/date.hpp"

#include <array>
#include <cstdio>

namespace flyball::http {

std::string imf_fixdate(std::chrono::sys_seconds seconds) {
  // strftime's names are the locale's.
  constexpr std::array kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                               "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto day = std::chrono::floor<std::chrono::days>(seconds);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(seconds - day);
  std::array<char, 64> text{};
  const int size =
      std::snprintf(text.data(), text.size(), "%s, %02u %s %04d %02d:%02d:%02d GMT",
                    kDays[std::chrono::weekday(day).c_encoding()], static_cast<unsigned>(date.day()),
                    kMonths[static_cast<unsigned>(date.month()) - 1], static_cast<int>(date.year()),
                    static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                    static_cast<int>(time.seconds().count()));
  return {text.data(), static_cast<std::size_t>(size)};
}

std::string_view DateClock::now() {
  const auto second = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  if (text_.empty() || second != second_) {
    second_ = second;
    text_ = imf_fixdate(second);
  }
  return text_;
}

}  // namespace flyball::http
