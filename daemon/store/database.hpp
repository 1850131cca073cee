// What must survive a restart (usage, decisions, measurements), in one SQLite file of the state directory.
// SQLite stays behind this header. One connection; one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "config/error.hpp"

struct sqlite3;

namespace flyball::store {

// NULL, INTEGER, REAL, TEXT.
using Value = std::variant<std::monostate, std::int64_t, double, std::string>;
using Row = std::span<const Value>;  // a result's columns, in the order of the SELECT

class Database {
 public:
  enum class Access : std::uint8_t { read_only, read_write };

  // read_write: the file is made where there is none (for this user alone) and brought to the newest schema
  // (schema.cpp). read_only: for tools beside a running daemon. io_error: it cannot be opened, is no SQLite
  // file, is damaged, or its schema is newer than this program (read_only: or older).
  static Result<Database> open(const std::filesystem::path& file, Access access);
  // As open for writing, for the one process that may (io_error: another has it, as long as it lives), after
  // a look at every page. A damaged file is moved aside ("<file>.damaged", the newest is kept) and
  // `moved_aside` says so: a daemon starts without its past rather than not at all.
  static Result<Database> open_for_daemon(const std::filesystem::path& file, bool& moved_aside);

  // One statement. Prepared once and kept, so `sql` must be one of few texts; values go in by `args` alone,
  // for the ?s in order.
  Result<void> run(std::string_view sql, std::initializer_list<Value> args = {});
  // The same for a SELECT: each row in turn, until `each` returns false.
  Result<void> query(std::string_view sql, std::initializer_list<Value> args,
                     const std::function<bool(Row)>& each);
  // All of what `work` does, or, where it fails, nothing of it.
  Result<void> transaction(const std::function<Result<void>()>& work);

  const std::filesystem::path& file() const noexcept;

  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;
  ~Database();

 private:
  struct Impl;
  explicit Database(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Columns of a row by type; what SQLite holds as another type, or NULL, gives the value's zero.
std::int64_t integer(const Value& value) noexcept;
double number(const Value& value) noexcept;  // an integer, too
const std::string& text(const Value& value) noexcept;

// Where the daemon of this configuration keeps its file: flyball.db in state_dir.
inline std::filesystem::path file_in(const std::filesystem::path& state_dir) {
  return state_dir / "flyball.db";
}

}  // namespace flyball::store
