// What must survive a restart (usage, decisions, measurements), in one SQLite file of the state directory.
// SQLite stays behind this header. One connection; one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/error.hpp"

struct sqlite3;

namespace flyball::store {

// NULL, INTEGER, REAL, TEXT.
using Value = std::variant<std::monostate, std::int64_t, double, std::string>;
using Row = std::span<const Value>;  // a result's columns, in the order of the SELECT

// A damaged file that a new one has replaced.
struct SetAside {
  std::filesystem::path file;  // as it was, its WAL beside it (-wal, -shm)
  std::string why;
  std::vector<std::filesystem::path> removed;  // older ones, of which Database::kKeptDamaged are kept
};

class Database {
 public:
  // salvage: what is left of a damaged file; nothing of it is checked, and nothing changes in it.
  enum class Access : std::uint8_t { read_only, read_write, salvage };
  static constexpr std::size_t kKeptDamaged = 4;

  // read_write: the file is made where there is none (for this user alone) and brought to the newest schema
  // (schema.cpp). read_only: for tools beside a running daemon. io_error: it cannot be opened, is no SQLite
  // file, is damaged, or its schema is newer than this program (read_only: or older).
  static Result<Database> open(const std::filesystem::path& file, Access access);

  struct Opened;
  // Opens the file for the daemon, which holds the lock of its state directory (state_lock.hpp), after a look
  // at every page. A file that SQLite twice finds damaged is set aside, as "<file>.damaged-<UTC>": a
  // daemon starts without its past rather than not at all. Errors that may pass (of reading, of memory, a
  // lock) are no damage: the file is tried again for some seconds, and stays where it is. `now`: seconds
  // since the epoch.
  static Result<Opened> open_for_daemon(const std::filesystem::path& file, std::int64_t now);

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

struct Database::Opened {
  Database database;
  std::optional<SetAside> set_aside;
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
