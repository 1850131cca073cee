// Measurements in the store.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/measure/figures.hpp"
#include "daemon/store/database.hpp"

namespace flyball::measure {

// Writes what was measured of the subject, in place of what was known of it.
// put: within a transaction of the caller's, as a store::Writer's jobs are.
Result<void> put(store::Database& database, const Subject& subject, std::span<const Figure> figures);
Result<void> save(store::Database& database, const Subject& subject, std::span<const Figure> figures);
// All that is not older than kLifetimeSeconds.
Result<std::vector<Measured>> load(store::Database& database, std::int64_t now);

}  // namespace flyball::measure
