// The limits of each app and its use of them: requests, bytes of bodies and tokens a minute, answers in
// flight and waiting, tokens a day, KV tokens at once. A request is charged when its head has come, before
// its body is read; once the body is parsed it reserves what it may come to and settles with what it came to,
// so that no sum is ever exceeded, however many run. Its answers stay in flight until their clients have
// them. Pure: whoever asks says what time it is.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <string>

#include "config/app_manifest.hpp"
#include "config/error.hpp"

namespace flyball::route {

struct Now {
  std::int64_t steady_ms = 0;  // never goes back
  std::int64_t utc_s = 0;      // since the epoch: which day it is, and when it ends
  std::int64_t day() const noexcept { return utc_s / 86'400; }
};

// What a request may come to, its answers together.
struct Demand {
  std::uint32_t answers = 1;
  std::uint64_t least_tokens = 0;  // where fewer are left it is refused
  std::uint64_t most_tokens = 0;   // it reserves so many, or as many as are left
};

// Of one kind: what the x-ratelimit-* header fields say.
struct Standing {
  std::uint64_t limit = 0, remaining = 0;
  std::int64_t reset_ms = 0;  // until all of it is there again, if nobody asks meanwhile
};
struct Standings {
  std::optional<Standing> requests, tokens, bytes;  // absent: not limited
};

struct Refusal {
  Error error;
  // Until the request would be admitted, were the app's others to go on for ever; -1: that may never be, it
  // waits for one of them to end.
  std::int64_t retry_after_ms = -1;
  Standings standings = {};
};

// So much a minute at most, evenly, and one minute's worth at once. Exact: counts in 60,000ths.
class MinuteBucket {
 public:
  void set(std::uint64_t per_minute, const Now& now) noexcept;  // 0: no limit
  void take(std::uint64_t n) noexcept {
    if (per_minute_ > 0) level_ -= static_cast<std::int64_t>(n) * kUnit;
  }
  void give_back(std::uint64_t n) noexcept;
  std::uint64_t left() const noexcept;  // as of the last set()
  // Milliseconds until n are left. Precondition: n is at most what a minute gives.
  std::int64_t until(std::uint64_t n) const noexcept;
  std::uint64_t per_minute() const noexcept { return static_cast<std::uint64_t>(per_minute_); }

 private:
  static constexpr std::int64_t kUnit = 60'000;  // a millisecond gives per_minute of them
  std::int64_t per_minute_ = 0, level_ = 0, at_ms_ = 0;
};

class Limits {
 public:
  // Given back with settle() and leave(), whatever became of the request.
  struct Reservation {
    std::uint32_t answers = 0;
    std::uint64_t tokens = 0;  // 0: nothing limits them
    std::int64_t day = 0;      // the tokens are this day's
    bool waits = true;
    Standings standings = {};  // as they were left by it
  };

  // Charges the app with one request and the bytes of its body, before the body is read. rate_limited, or
  // body_too_large where the body is longer than a minute's bytes. The limits are the latest manifest's;
  // nothing is charged where it is refused.
  std::expected<Standings, Refusal> charge(const std::string& app, const config::AppLimits& limits,
                                           std::uint64_t body_bytes, const Now& now);
  // Takes back part of a charge: bytes that a body did not have, or a request that the daemon had no room
  // for.
  void give_back(const std::string& app, std::uint64_t requests, std::uint64_t body_bytes);
  // The requests, bytes and tokens that the app has left now.
  Standings standings_of(const std::string& app, const config::AppLimits& limits, const Now& now);

  // Reserves what a charged request may come to. rate_limited, or invalid_value where it asks for what the
  // limits never allow. Nothing is counted where it is refused.
  std::expected<Reservation, Refusal> admit(const std::string& app, const config::AppLimits& limits,
                                            const Demand& demand, const Now& now);
  void begun(const std::string& app, Reservation& reservation);  // it waits no longer
  // The request has ended: its tokens are settled, and it waits no longer.
  void settle(const std::string& app, const Reservation& reservation, std::uint64_t used_tokens);
  void leave(const std::string& app, std::uint32_t answers);  // so many are in flight no longer

  // What the app had used of a day when the daemon was last running. Of any day: a clock may be wrong.
  void restore(const std::string& app, std::int64_t day, std::uint64_t used_tokens);
  // The app's use of a day is unknown: nothing is admitted that day where it has a budget of tokens a day.
  void lose(const std::string& app, std::int64_t day);
  std::uint64_t used_on(const std::string& app, std::int64_t day) const;
  std::uint32_t in_flight(const std::string& app) const;

 private:
  // The refusal that admit() would answer now; reserves nothing. nullopt: it would admit the request.
  std::optional<Refusal> refusal(const std::string& app, const config::AppLimits& limits,
                                 const Demand& demand, const Now& now);
  // A clock that is set back finds its day as it left it; those farthest from now are forgotten.
  static constexpr std::size_t kKeptDays = 16;
  struct Day {
    std::uint64_t used = 0, reserved = 0;  // tokens
    bool lost = false;                     // `used` is not all
  };
  struct App {
    std::uint32_t in_flight = 0, waiting = 0;  // answers
    MinuteBucket requests, tokens, bytes;
    std::map<std::int64_t, Day> days;
    std::uint64_t held = 0;  // tokens reserved, of whatever day: what may lie in KV
  };
  // Tokens that the app may still reserve, by each limit; UINT64_MAX where there is none.
  struct Left {
    std::uint64_t day = 0, kv = 0;
  };
  // With the app's buckets filled up to now.
  App& refreshed(const std::string& app, const config::AppLimits& limits, const Now& now);
  static Left left(const App& app, const config::AppLimits& limits, const Day& today);
  static Standings standings(const App& app, const config::AppLimits& limits, const Now& now);
  std::map<std::string, App> apps_;  // of the configuration: they are few, and stay
};

}  // namespace flyball::route
