#include "daemon/store/schema.hpp"

#include <array>

namespace flyball::store {

std::span<const std::string_view> schema_versions() noexcept {
  static constexpr std::array<std::string_view, 1> kVersions = {
      // 1: who wrote the file.
      R"(CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;)",
  };
  return kVersions;
}

}  // namespace flyball::store
