#include "daemon/store/database.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <sqlite3.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "daemon/store/schema.hpp"

namespace flyball::store {
namespace {

// A tool that reads beside the daemon, or the reverse, waits so long for the other's transaction.
constexpr int kBusyMs = 5000;

struct CloseDb {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Db = std::unique_ptr<sqlite3, CloseDb>;
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

std::unexpected<Error> fail_errno(const std::filesystem::path& file) {
  return fail(ErrorCode::io_error, std::string(std::strerror(errno)) + ".", {}, file.string());
}

// Held as long as the file is open.
class Lock {
 public:
  Lock() = default;
  static Result<Lock> take(const std::filesystem::path& file) {
    Lock lock;
    lock.fd_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock.fd_ < 0) return fail_errno(file);
    if (flock(lock.fd_, LOCK_EX | LOCK_NB) == 0) return lock;
    if (errno != EWOULDBLOCK) return fail_errno(file);
    return fail(ErrorCode::io_error, "Another daemon holds it.", {}, file.string());
  }
  Lock(Lock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Lock& operator=(Lock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Lock() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  int fd_ = -1;
};

Value column(sqlite3_stmt* statement, int i) {
  switch (sqlite3_column_type(statement, i)) {
    case SQLITE_INTEGER:
      return sqlite3_column_int64(statement, i);
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement, i);
    case SQLITE_TEXT:
    case SQLITE_BLOB: {
      const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, i));
      const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement, i));
      return bytes == nullptr ? std::string() : std::string(bytes, size);
    }
    default:
      return std::monostate{};
  }
}

int bind(sqlite3_stmt* statement, int i, const Value& value) {
  if (const auto* v = std::get_if<std::int64_t>(&value)) return sqlite3_bind_int64(statement, i, *v);
  if (const auto* v = std::get_if<double>(&value)) return sqlite3_bind_double(statement, i, *v);
  // The caller's text outlives the statement's steps: run() and query() reset it before they return.
  if (const auto* v = std::get_if<std::string>(&value))
    return sqlite3_bind_text64(statement, i, v->data(), v->size(), SQLITE_STATIC, SQLITE_UTF8);
  return sqlite3_bind_null(statement, i);
}

}  // namespace

struct Database::Impl {
  std::filesystem::path file;
  Lock lock;  // a daemon's
  Db db;      // before the statements: they go first
  std::map<std::string, Statement, std::less<>> statements;

  // damaged: the file is there, and is no database that can be read.
  static Result<std::unique_ptr<Impl>> open(const std::filesystem::path& file, Access access, bool& damaged);

  Result<sqlite3_stmt*> prepared(std::string_view sql);
  Result<void> each(std::string_view sql, std::span<const Value> args,
                    const std::function<bool(Row)>& row_of);
  Result<void> script(const std::string& sql);
  Result<void> transaction(const std::function<Result<void>()>& work);
  Result<std::int64_t> version();
  Result<void> to_newest_schema(Access access);
  std::unexpected<Error> failed() const {
    return fail(ErrorCode::io_error, std::string("SQLite: ") + sqlite3_errmsg(db.get()) + ".", {},
                file.string());
  }
};

Result<std::unique_ptr<Database::Impl>> Database::Impl::open(const std::filesystem::path& file, Access access,
                                                             bool& damaged) {
  const bool writes = access == Access::read_write;
  if (writes) {
    // SQLite would make it for everybody the umask lets in; what apps did is nobody else's to read.
    // Only where it is missing: closing a file drops the locks that this process has on it.
    const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST) return fail_errno(file);
    if (fd >= 0) ::close(fd);
  }
  // SQLite itself says of every file that it cannot open the same.
  if (!writes && ::access(file.c_str(), R_OK) != 0)
    return errno == ENOENT
               ? fail(ErrorCode::io_error,
                      "There is no such file: no daemon has kept records here yet (flyball serve).", {},
                      file.string())
               : fail_errno(file);
  auto impl = std::make_unique<Impl>();
  impl->file = file;
  sqlite3* raw = nullptr;
  const int opened =
      sqlite3_open_v2(file.c_str(), &raw,
                      (writes ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) | SQLITE_OPEN_NOMUTEX, nullptr);
  impl->db.reset(raw);
  if (opened != SQLITE_OK) return impl->failed();
  sqlite3_busy_timeout(raw, kBusyMs);
  // Whoever may write the file must not make this program do more than read rows.
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  // Readers beside the writer; after a power cut the last transactions may be missing, never half there.
  auto ready =
      writes ? impl->script("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL") : Result<void>{};
  if (ready) ready = impl->to_newest_schema(access);
  if (!ready) {
    const int code = sqlite3_errcode(raw) & 0xff;
    damaged = code == SQLITE_NOTADB || code == SQLITE_CORRUPT;
    return pass(ready);
  }
  return impl;
}

Result<sqlite3_stmt*> Database::Impl::prepared(std::string_view sql) {
  auto at = statements.find(sql);
  if (at == statements.end()) {
    sqlite3_stmt* made = nullptr;
    if (sqlite3_prepare_v3(db.get(), sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                           &made, nullptr) != SQLITE_OK)
      return failed();
    at = statements.emplace(std::string(sql), Statement(made)).first;
  }
  return at->second.get();
}

Result<void> Database::Impl::each(std::string_view sql, std::span<const Value> args,
                                  const std::function<bool(Row)>& row_of) {
  const auto statement = prepared(sql);
  if (!statement) return pass(statement);
  // However this ends, and before the caller's values go.
  struct Reset {
    sqlite3_stmt* statement;
    ~Reset() {
      sqlite3_reset(statement);
      sqlite3_clear_bindings(statement);
    }
  } const reset{*statement};
  for (std::size_t i = 0; i < args.size(); ++i)
    if (bind(*statement, static_cast<int>(i) + 1, args[i]) != SQLITE_OK) return failed();
  std::vector<Value> row(static_cast<std::size_t>(sqlite3_column_count(*statement)));
  for (;;) {
    const int stepped = sqlite3_step(*statement);
    if (stepped == SQLITE_DONE) return {};
    if (stepped != SQLITE_ROW) return failed();
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = column(*statement, static_cast<int>(i));
    if (row_of && !row_of(row)) return {};
  }
}

Result<void> Database::Impl::script(const std::string& sql) {
  if (sqlite3_exec(db.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) return failed();
  return {};
}

Result<void> Database::Impl::transaction(const std::function<Result<void>()>& work) {
  if (auto begun = each("BEGIN IMMEDIATE", {}, {}); !begun) return begun;
  auto done = work();
  if (done) done = each("COMMIT", {}, {});
  // Some errors have ended the transaction by themselves.
  if (!done && sqlite3_get_autocommit(db.get()) == 0) (void)script("ROLLBACK");
  return done;
}

Result<std::int64_t> Database::Impl::version() {
  std::int64_t version = 0;
  auto read = each("PRAGMA user_version", {}, [&](Row row) {
    version = integer(row[0]);
    return true;
  });
  if (!read) return pass(read);
  return version;
}

Result<void> Database::Impl::to_newest_schema(Access access) {
  const auto versions = schema_versions();
  const auto newest = static_cast<std::int64_t>(versions.size());
  const auto found = version();
  if (!found) return pass(found);
  if (*found < 0 || *found > newest || (access == Access::read_only && *found < newest))
    return fail(
        ErrorCode::io_error,
        "The file's schema is version " + std::to_string(*found) + "; this program reads version " +
            std::to_string(newest) +
            (*found >= 0 && *found < newest ? ", to which its daemon brings the file when it starts." : "."),
        {}, file.string());
  if (*found == newest) return {};
  return transaction([&]() -> Result<void> {
    const auto held = version();  // another process may have come first
    if (!held) return pass(held);
    for (auto v = *held; v < newest; ++v)
      if (auto made = script(std::string(versions[static_cast<std::size_t>(v)])); !made) return pass(made);
    return script("PRAGMA user_version = " + std::to_string(newest));
  });
}

Database::Database(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;
Database::~Database() = default;

Result<Database> Database::open(const std::filesystem::path& file, Access access) {
  bool damaged = false;
  auto impl = Impl::open(file, access, damaged);
  if (!impl) return pass(impl);
  return Database(std::move(*impl));
}

Result<Database> Database::open_for_daemon(const std::filesystem::path& file, bool& moved_aside) {
  moved_aside = false;
  std::filesystem::path held = file;
  auto lock = Lock::take(held += ".lock");
  if (!lock) return pass(lock);
  const auto with_lock = [&](std::unique_ptr<Impl> impl) {
    impl->lock = std::move(*lock);
    return Database(std::move(impl));
  };
  bool damaged = false;
  {
    auto impl = Impl::open(file, Access::read_write, damaged);
    if (!impl && !damaged) return pass(impl);
    if (impl) {
      std::string first;
      const auto checked = (*impl)->each("PRAGMA quick_check(1)", {}, [&](Row row) {
        first = text(row[0]);
        return true;
      });
      if (checked && first == "ok") return with_lock(std::move(*impl));
    }
  }  // closed: nobody writes it any more
  std::filesystem::path aside = file;
  aside += ".damaged";
  std::error_code error;
  std::filesystem::rename(file, aside, error);
  if (error) return fail(ErrorCode::io_error, error.message() + ".", {}, file.string());
  // What belongs to the old file must not be replayed into the new one.
  for (const char* part : {"-wal", "-shm"}) {
    std::filesystem::path beside = file;
    std::filesystem::remove(beside += part, error);
  }
  moved_aside = true;
  auto impl = Impl::open(file, Access::read_write, damaged);
  if (!impl) return pass(impl);
  return with_lock(std::move(*impl));
}

Result<void> Database::run(std::string_view sql, std::initializer_list<Value> args) {
  return impl_->each(sql, args, {});
}
Result<void> Database::query(std::string_view sql, std::initializer_list<Value> args,
                             const std::function<bool(Row)>& each) {
  return impl_->each(sql, args, each);
}
Result<void> Database::transaction(const std::function<Result<void>()>& work) {
  return impl_->transaction(work);
}
const std::filesystem::path& Database::file() const noexcept {
  return impl_->file;
}

std::int64_t integer(const Value& value) noexcept {
  const auto* v = std::get_if<std::int64_t>(&value);
  return v != nullptr ? *v : 0;
}
double number(const Value& value) noexcept {
  if (const auto* v = std::get_if<double>(&value)) return *v;
  return static_cast<double>(integer(value));
}
const std::string& text(const Value& value) noexcept {
  static const std::string kNone;
  const auto* v = std::get_if<std::string>(&value);
  return v != nullptr ? *v : kNone;
}

}  // namespace flyball::store
