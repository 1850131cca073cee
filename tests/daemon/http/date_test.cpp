// The time of day as the Date field has it.
#include "daemon/http/date.hpp"

#include <gtest/gtest.h>

namespace flyball::http {
namespace {

using std::chrono::seconds;
using std::chrono::sys_seconds;

TEST(Date, IsWrittenAsTheRfcHasIt) {
  struct Case {
    std::int64_t at;
    const char* text;
  };
  for (const Case& c : {Case{784111777, "Sun, 06 Nov 1994 08:49:37 GMT"},  // RFC 9110, section 5.6.7
                        {0, "Thu, 01 Jan 1970 00:00:00 GMT"},
                        {951782399, "Mon, 28 Feb 2000 23:59:59 GMT"},
                        {951782400, "Tue, 29 Feb 2000 00:00:00 GMT"},
                        {4102444799, "Thu, 31 Dec 2099 23:59:59 GMT"},
                        {-1, "Wed, 31 Dec 1969 23:59:59 GMT"}})
    EXPECT_EQ(imf_fixdate(sys_seconds(seconds(c.at))), c.text);
}

TEST(Date, IsTheSystemClocks) {
  DateClock clock;
  const auto before = std::chrono::floor<seconds>(std::chrono::system_clock::now());
  const std::string said(clock.now());
  const auto after = std::chrono::floor<seconds>(std::chrono::system_clock::now());
  bool found = false;
  for (auto at = before; at <= after; at += seconds(1)) found |= said == imf_fixdate(at);
  EXPECT_TRUE(found) << said;
}

}  // namespace
}  // namespace flyball::http
