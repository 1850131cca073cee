#include "daemon/measure/measured_store.hpp"

#include <cmath>
#include <string>

namespace flyball::measure {

Result<void> put(store::Database& database, const Subject& s, std::span<const Figure> figures) {
  if (auto ok = database.run(
          "DELETE FROM measured WHERE model = ? AND backend = ? AND device = ? AND driver = ? AND setup = ?",
          {s.model, s.backend, s.device, s.driver, s.setup});
      !ok)
    return ok;
  for (const Figure& f : figures)
    if (auto ok = database.run(
            "INSERT OR REPLACE INTO measured (model, backend, device, driver, setup, figure, at, "
            "value, measured_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            {s.model, s.backend, s.device, s.driver, s.setup, std::string(to_string(f.kind)),
             std::int64_t{f.at}, f.value, f.measured_at});
        !ok)
      return ok;
  return {};
}

Result<void> save(store::Database& database, const Subject& subject, std::span<const Figure> figures) {
  return database.transaction([&] { return put(database, subject, figures); });
}

Result<std::vector<Measured>> load(store::Database& database, std::int64_t now) {
  std::vector<Measured> out;
  const auto read = database.query(
      "SELECT model, backend, device, driver, setup, figure, at, value, measured_at FROM measured "
      "WHERE measured_at >= ?",
      {now - kLifetimeSeconds}, [&](store::Row row) {
        const auto kind = kind_named(store::text(row[5]));
        const std::int64_t at = store::integer(row[6]);
        const double value = store::number(row[7]);
        // Of a newer program, or of somebody else's hand.
        if (!kind || at < 0 || at > UINT32_MAX || !std::isfinite(value) || value < 0) return true;
        out.push_back({{store::text(row[0]), store::text(row[1]), store::text(row[2]), store::text(row[3]),
                        store::text(row[4])},
                       {*kind, static_cast<std::uint32_t>(at), value, store::integer(row[8])}});
        return true;
      });
  if (!read) return pass(read);
  return out;
}

}  // namespace flyball::measure
