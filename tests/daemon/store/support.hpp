// A directory of its own for each test, and a table to write into.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "daemon/store/database.hpp"

namespace flyball::test {

class StoreDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "flyball-store-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path file() const { return store::file_in(directory_); }
  store::Database open(store::Database::Access access = store::Database::Access::read_write) const {
    auto database = store::Database::open(file(), access);
    EXPECT_TRUE(database) << database.error().message;
    return std::move(*database);
  }

  std::filesystem::path directory_;
};

inline Result<void> note(store::Database& database, const std::string& key, const std::string& value) {
  return database.run("INSERT INTO about (key, value) VALUES (?, ?)", {key, value});
}
inline std::string noted(store::Database& database, const std::string& key) {
  std::string found = "(absent)";
  const auto read = database.query("SELECT value FROM about WHERE key = ?", {key}, [&](store::Row row) {
    found = store::text(row[0]);
    return true;
  });
  return read ? found : read.error().message;
}

}  // namespace flyball::test
