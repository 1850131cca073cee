#include "daemon/route/limits.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace flyball::route {
namespace {

constexpr std::int64_t kMsOfDay = 86'400'000;
constexpr std::uint64_t kUnlimited = UINT64_MAX;

std::uint64_t less(std::uint64_t from, std::uint64_t what) noexcept {
  return from - std::min(from, what);
}

std::string number(std::uint64_t n) {
  return std::to_string(n);
}

std::int64_t until_midnight_ms(const Now& now) {
  return kMsOfDay - now.utc_s % 86'400 * 1000;
}

std::string seconds_of(std::int64_t ms) {
  return std::to_string((ms + 999) / 1000) + " s";
}

// The reason that holds longest; one that only an end lifts counts as none that time does.
class Reasons {
 public:
  void add(std::string message, std::int64_t retry_after_ms = -1) {
    if (refusal_ && refusal_->retry_after_ms >= retry_after_ms) return;
    if (retry_after_ms >= 0) message += " It is free again in " + seconds_of(retry_after_ms) + ".";
    refusal_ = Refusal{{ErrorCode::rate_limited, std::move(message), {}, {}}, retry_after_ms};
  }
  std::optional<Refusal>& worst() noexcept { return refusal_; }

 private:
  std::optional<Refusal> refusal_;
};

Refusal never(std::string message, std::string param) {
  return {{ErrorCode::invalid_value, std::move(message), std::move(param), {}}};
}

}  // namespace

void MinuteBucket::set(std::uint64_t per_minute, const Now& now) noexcept {
  const auto rate = static_cast<std::int64_t>(per_minute);
  if (per_minute_ == 0) {
    level_ = rate * kUnit;  // the limit is new
  } else {
    level_ += std::clamp<std::int64_t>(now.steady_ms - at_ms_, 0, kUnit) * per_minute_;
  }
  at_ms_ = per_minute_ == 0 ? now.steady_ms : std::max(at_ms_, now.steady_ms);
  per_minute_ = rate;
  level_ = std::min(level_, rate * kUnit);
}

void MinuteBucket::give_back(std::uint64_t n) noexcept {
  level_ = std::min(level_ + static_cast<std::int64_t>(n) * kUnit, per_minute_ * kUnit);
}

std::uint64_t MinuteBucket::left() const noexcept {
  return per_minute_ == 0 ? kUnlimited
                          : static_cast<std::uint64_t>(std::max<std::int64_t>(0, level_) / kUnit);
}

std::int64_t MinuteBucket::until(std::uint64_t n) const noexcept {
  const std::int64_t missing = static_cast<std::int64_t>(n) * kUnit - level_;
  return missing <= 0 || per_minute_ == 0 ? 0 : (missing + per_minute_ - 1) / per_minute_;
}

Limits::App& Limits::refreshed(const std::string& name, const config::AppLimits& limits, const Now& now) {
  App& app = apps_[name];
  app.requests.set(limits.requests_per_minute, now);
  app.tokens.set(limits.tokens_per_minute, now);
  app.bytes.set(limits.bytes_per_minute, now);
  return app;
}

Standings Limits::standings(const App& app, const config::AppLimits& limits, const Now& now) {
  const auto of = [](const MinuteBucket& bucket) -> std::optional<Standing> {
    if (bucket.per_minute() == 0) return std::nullopt;
    return Standing{bucket.per_minute(), bucket.left(), bucket.until(bucket.per_minute())};
  };
  Standings out{of(app.requests), of(app.tokens), of(app.bytes)};
  if (limits.tokens_per_day == 0) return out;
  const auto today = app.days.find(now.day());
  const std::uint64_t taken = today == app.days.end() ? 0
                              : today->second.lost    ? limits.tokens_per_day
                                                      : today->second.used + today->second.reserved;
  const Standing day{limits.tokens_per_day, less(limits.tokens_per_day, taken), until_midnight_ms(now)};
  if (!out.tokens || day.remaining < out.tokens->remaining) out.tokens = day;
  return out;
}

Standings Limits::standings_of(const std::string& name, const config::AppLimits& limits, const Now& now) {
  return standings(refreshed(name, limits, now), limits, now);
}

std::expected<Standings, Refusal> Limits::charge(const std::string& name, const config::AppLimits& limits,
                                                 std::uint64_t body_bytes, const Now& now) {
  App& app = refreshed(name, limits, now);
  const auto refuse = [&](Refusal refusal) {
    refusal.standings = standings(app, limits, now);
    return std::unexpected(std::move(refusal));
  };
  if (limits.bytes_per_minute > 0 && body_bytes > limits.bytes_per_minute)
    return refuse({{ErrorCode::body_too_large,
                    "The body has " + number(body_bytes) + " bytes; the app's limit is " +
                        number(limits.bytes_per_minute) + " a minute (limits.bytes_per_minute).",
                    {},
                    {}}});
  Reasons reasons;
  if (app.requests.left() == 0)
    reasons.add("The app has used its " + number(limits.requests_per_minute) + " requests a minute.",
                app.requests.until(1));
  if (body_bytes > app.bytes.left())
    reasons.add("The app has " + number(app.bytes.left()) + " of its " + number(limits.bytes_per_minute) +
                    " bytes a minute left, and this body has " + number(body_bytes) + ".",
                app.bytes.until(body_bytes));
  if (reasons.worst()) return refuse(std::move(*reasons.worst()));
  app.requests.take(1);
  app.bytes.take(body_bytes);
  return standings(app, limits, now);
}

void Limits::give_back(const std::string& name, std::uint64_t requests, std::uint64_t body_bytes) {
  App& app = apps_[name];
  app.requests.give_back(requests);
  app.bytes.give_back(body_bytes);
}

Limits::Left Limits::left(const App& app, const config::AppLimits& limits, const Day& today) {
  Left out{kUnlimited, kUnlimited};
  if (limits.tokens_per_day > 0)
    out.day = today.lost ? 0 : less(limits.tokens_per_day, today.used + today.reserved);
  if (limits.kv_tokens > 0) out.kv = less(limits.kv_tokens, app.held);
  return out;
}

std::optional<Refusal> Limits::refusal(const std::string& name, const config::AppLimits& limits,
                                       const Demand& demand, const Now& now) {
  App& app = refreshed(name, limits, now);
  const Day today = app.days[now.day()];
  while (app.days.size() > kKeptDays) {
    const auto first = app.days.begin(), last = std::prev(app.days.end());
    app.days.erase(now.day() - first->first > last->first - now.day() ? first : last);
  }
  const auto [day_left, kv_left] = left(app, limits, today);

  const std::uint64_t least = demand.least_tokens;
  const auto refuse = [&](Refusal refusal) {
    refusal.standings = standings(app, limits, now);
    return refusal;
  };
  if (demand.answers > limits.in_flight)
    return refuse(never("The request asks for " + number(demand.answers) +
                            " answers at once; the app's limit is " + number(limits.in_flight) +
                            " in flight.",
                        "n"));
  for (const auto& [most, what] :
       {std::pair(limits.tokens_per_minute, "tokens a minute"),
        std::pair(limits.tokens_per_day, "tokens a day"), std::pair(limits.kv_tokens, "KV tokens at once")})
    if (most > 0 && least > most)
      return refuse(never("The request may come to " + number(least) + " tokens; the app's limit is " +
                              number(most) + " " + what + ".",
                          "max_tokens"));

  Reasons reasons;
  if (today.lost && limits.tokens_per_day > 0)
    reasons.add("The daemon cannot read how much of its " + number(limits.tokens_per_day) +
                    " tokens a day (UTC) the app has used (its log says why).",
                until_midnight_ms(now));
  // A reload may have lowered a limit below what is open.
  if (demand.answers > less(limits.in_flight, app.in_flight))
    reasons.add("The app already has " + number(app.in_flight) + " answers in flight; its limit is " +
                number(limits.in_flight) + ".");
  // An empty queue takes any request, or one of more answers than the limit could never be served.
  if (limits.queue > 0 && app.waiting > 0 && app.waiting + demand.answers > limits.queue)
    reasons.add("The app already has " + number(app.waiting) + " answers waiting; its limit is " +
                number(limits.queue) + ".");
  if (least > kv_left)
    reasons.add("The app's requests hold " + number(app.held) + " of its " + number(limits.kv_tokens) +
                " KV tokens, and this one needs " + number(least) + ".");
  if (least > app.tokens.left())
    reasons.add("The app has " + number(app.tokens.left()) + " of its " + number(limits.tokens_per_minute) +
                    " tokens a minute left, and this request needs " + number(least) + ".",
                app.tokens.until(least));
  if (least > day_left) {
    const bool spent =
        least > less(limits.tokens_per_day, today.used);  // else some of what is reserved may come back
    reasons.add("The app has used " + number(today.used) + " of its " + number(limits.tokens_per_day) +
                    " tokens a day (UTC), its open requests hold " + number(today.reserved) +
                    ", and this one needs " + number(least) + ".",
                spent ? until_midnight_ms(now) : -1);
  }
  if (reasons.worst()) return refuse(std::move(*reasons.worst()));
  return std::nullopt;
}

std::expected<Limits::Reservation, Refusal> Limits::admit(const std::string& name,
                                                          const config::AppLimits& limits,
                                                          const Demand& demand, const Now& now) {
  if (auto refused = refusal(name, limits, demand, now)) return std::unexpected(std::move(*refused));
  App& app = apps_[name];
  Reservation out;
  out.answers = demand.answers;
  out.day = now.day();
  const auto [day_left, kv_left] = left(app, limits, app.days[out.day]);
  const std::uint64_t most = std::min({day_left, kv_left, app.tokens.left()});
  if (most != kUnlimited) out.tokens = std::min(demand.most_tokens, most);
  app.in_flight += out.answers;
  app.waiting += out.answers;
  app.tokens.take(out.tokens);
  app.days[out.day].reserved += out.tokens;
  app.held += out.tokens;
  out.standings = standings(app, limits, now);
  return out;
}

void Limits::begun(const std::string& name, Reservation& reservation) {
  if (!std::exchange(reservation.waits, false)) return;
  apps_[name].waiting -= reservation.answers;
}

void Limits::settle(const std::string& name, const Reservation& reservation, std::uint64_t used) {
  App& app = apps_[name];
  if (reservation.waits) app.waiting -= reservation.answers;
  app.held -= reservation.tokens;
  if (used <= reservation.tokens)
    app.tokens.give_back(reservation.tokens - used);
  else
    app.tokens.take(used - reservation.tokens);  // the limit is newer than the request
  const auto day = app.days.find(reservation.day);
  if (day == app.days.end()) return;
  day->second.reserved -=
      std::min(day->second.reserved, reservation.tokens);  // it may be a new one of the date
  day->second.used += used;
}

void Limits::leave(const std::string& name, std::uint32_t answers) {
  apps_[name].in_flight -= answers;
}

void Limits::restore(const std::string& name, std::int64_t day, std::uint64_t used) {
  apps_[name].days[day].used = used;
}

void Limits::lose(const std::string& name, std::int64_t day) {
  apps_[name].days[day].lost = true;
}

std::uint64_t Limits::used_on(const std::string& name, std::int64_t day) const {
  const auto it = apps_.find(name);
  if (it == apps_.end()) return 0;
  const auto found = it->second.days.find(day);
  return found == it->second.days.end() ? 0 : found->second.used;
}

std::uint32_t Limits::in_flight(const std::string& name) const {
  const auto it = apps_.find(name);
  return it == apps_.end() ? 0 : it->second.in_flight;
}

}  // namespace flyball::route
