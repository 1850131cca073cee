#include "daemon/usage/usage_store.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace flyball::usage {
namespace {

std::int64_t stored(std::uint64_t n) noexcept {
  return static_cast<std::int64_t>(n);
}
std::uint64_t count(const store::Value& value) noexcept {
  return static_cast<std::uint64_t>(store::integer(value));
}

}  // namespace

Result<void> write(store::Database& database, const std::vector<AppDay>& rows) {
  for (const AppDay& row : rows) {
    const DayUsage& u = row.usage;
    auto written = database.run(
        "INSERT OR REPLACE INTO usage (app, day, requests, refused, errors, cancelled, prompt_tokens, "
        "cached_tokens, generated_tokens, guessed_tokens, streamed, with_tools, prompt_lengths, "
        "cached_lengths, answer_lengths, open_at_arrival) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        {row.app, row.day, stored(u.requests), stored(u.refused), stored(u.errors), stored(u.cancelled),
         stored(u.prompt_tokens), stored(u.cached_tokens), stored(u.generated_tokens),
         stored(u.guessed_tokens), stored(u.streamed), stored(u.with_tools), u.prompt_lengths.text(),
         u.cached_lengths.text(), u.answer_lengths.text(), u.open_at_arrival.text()});
    if (!written) return pass(written);
  }
  return {};
}

namespace {

constexpr const char* kSelect =
    "SELECT app, day, requests, refused, errors, cancelled, prompt_tokens, cached_tokens, "
    "generated_tokens, guessed_tokens, streamed, with_tools, prompt_lengths, cached_lengths, "
    "answer_lengths, open_at_arrival FROM usage ";
constexpr std::size_t kCounts = 10, kHistograms = 4;

AppDay row_of(store::Row row) {
  AppDay one{store::text(row[0]), store::integer(row[1]), {}};
  DayUsage& u = one.usage;
  std::size_t at = 2;
  for (std::uint64_t* n :
       {&u.requests, &u.refused, &u.errors, &u.cancelled, &u.prompt_tokens, &u.cached_tokens,
        &u.generated_tokens, &u.guessed_tokens, &u.streamed, &u.with_tools})
    *n = count(row[at++]);
  for (Histogram* h : {&u.prompt_lengths, &u.cached_lengths, &u.answer_lengths, &u.open_at_arrival})
    *h = Histogram::from(store::text(row[at++]));
  return one;
}

// Whether a damaged file's row is one that write() has written.
bool is_sound(store::Row row) {
  if (store::text(row[0]).empty()) return false;
  for (std::size_t i = 1; i < 2 + kCounts; ++i)
    if (!std::holds_alternative<std::int64_t>(row[i]) || store::integer(row[i]) < 0) return false;
  for (std::size_t i = 2 + kCounts; i < 2 + kCounts + kHistograms; ++i)
    if (!std::holds_alternative<std::string>(row[i])) return false;
  return true;
}

Result<std::vector<AppDay>> rows(store::Database& database, const std::string& which,
                                 std::initializer_list<store::Value> args) {
  std::vector<AppDay> out;
  auto done = database.query(kSelect + ("WHERE " + which) + " ORDER BY app, day", args, [&](store::Row row) {
    out.push_back(row_of(row));
    return true;
  });
  if (!done) return pass(done);
  return out;
}

}  // namespace

Result<std::vector<AppDay>> read(store::Database& database, std::int64_t first_day, const std::string& app) {
  return rows(database, "day >= ?1 AND (?2 = '' OR app = ?2)", {first_day, app});
}

Result<std::vector<AppDay>> read_latest(store::Database& database, std::int64_t days) {
  return rows(database, "day IN (SELECT DISTINCT day FROM usage ORDER BY day DESC LIMIT ?1)", {days});
}

Result<void> write_lost(store::Database& database, const LostDays& days, std::int64_t today) {
  auto written = database.run("DELETE FROM lost_usage WHERE day < ?", {today - DailyUsage::kKeptDays});
  for (const auto& [app, day] : days)
    if (written)
      written = database.run("INSERT OR IGNORE INTO lost_usage (app, day) VALUES (?, ?)", {app, day});
  return written;
}

Result<LostDays> read_lost(store::Database& database) {
  LostDays out;
  auto done = database.query("SELECT app, day FROM lost_usage", {}, [&](store::Row row) {
    out.emplace_back(store::text(row[0]), store::integer(row[1]));
    return true;
  });
  if (!done) return pass(done);
  return out;
}

Past salvage(store::Database& damaged, const std::vector<std::string>& apps, std::int64_t today) {
  std::map<DailyUsage::Key, AppDay> found;
  // Whether the rows asked for are all that there are.
  const auto read = [&](const std::string& which, std::initializer_list<store::Value> args) {
    bool sound = true;
    const auto done = damaged.query(kSelect + which, args, [&](store::Row row) {
      if (!is_sound(row)) return sound = false, true;
      AppDay one = row_of(row);
      found.try_emplace({one.app, one.day}, std::move(one));
      return true;
    });
    return done && sound;
  };
  std::set<DailyUsage::Key> lost;
  // A page that cannot be read ends a walk through the table: the other end, and single rows, may still be
  // there.
  if (!read("ORDER BY app, day", {}) && !read("ORDER BY app DESC, day DESC", {}))
    for (const std::string& app : apps)
      for (std::int64_t day = today - DailyUsage::kKeptDays; day <= today; ++day)
        if (!read("WHERE app = ?1 AND day = ?2", {app, day}) && day == today && !found.contains({app, day}))
          lost.emplace(app, day);
  // A file of an older schema has no such table, and calls nothing lost.
  bool has_table = false;
  const auto looked = damaged.query("SELECT 1 FROM sqlite_schema WHERE name = 'lost_usage'", {},
                                    [&](store::Row) { return has_table = true, false; });
  if (const auto before = read_lost(damaged)) {
    for (const auto& [app, day] : *before)
      if (std::ranges::find(apps, app) != apps.end()) lost.emplace(app, day);
  } else if (has_table || !looked) {
    for (const std::string& app : apps) lost.emplace(app, today);
  }
  Past past;
  past.lost.assign(lost.begin(), lost.end());
  for (auto& [key, one] : found) past.days.push_back(std::move(one));
  return past;
}

}  // namespace flyball::usage
