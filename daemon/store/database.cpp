#include "daemon/store/database.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <ctime>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "config/file_error.hpp"
#include "daemon/store/schema.hpp"
#include "daemon/store/state_lock.hpp"

namespace flyball::store {
namespace {

// A tool that reads beside the daemon, or the reverse, waits so long for the other's transaction.
constexpr int kBusyMs = 5000;
// How long errors that may pass are tried again at a start: a disk that resets its link takes a second or
// two.
constexpr std::chrono::milliseconds kTryFor{3000}, kFirstPause{50};

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

std::filesystem::path beside(std::filesystem::path file, std::string_view suffix) {
  return file += suffix;
}

// Suffixes of the files that belong to a database file.
constexpr std::array<std::string_view, 2> kParts{"-wal", "-shm"};

// "20251123T164500Z".
std::string utc_text(std::int64_t at) {
  const auto seconds = static_cast<std::time_t>(at);
  std::tm parts{};
  char text[32] = "";
  gmtime_r(&seconds, &parts);
  return {text, std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts)};
}

// Renames the file and its WAL, and returns the file's new name. The file goes last: a WAL that stayed alone
// would be replayed into the next file. Where one rename fails all of them stay where they were.
Result<std::filesystem::path> move_aside(const std::filesystem::path& file, std::int64_t now) {
  std::error_code error;
  const std::filesystem::path name = beside(file, ".damaged-" + utc_text(now));
  std::filesystem::path free = name;
  for (int n = 2; std::filesystem::exists(free, error); ++n) free = beside(name, "-" + std::to_string(n));
  std::vector<std::string_view> moved;
  for (const std::string_view part : {kParts[0], kParts[1], std::string_view()}) {
    std::filesystem::rename(beside(file, part), beside(free, part), error);
    if (!error) moved.push_back(part);
    if (!error || (error == std::errc::no_such_file_or_directory && !part.empty())) continue;
    std::error_code ignored;
    for (const std::string_view back : moved)
      std::filesystem::rename(beside(free, back), beside(file, back), ignored);
    return fail(ErrorCode::io_error, error.message() + ".", {}, beside(file, part).string());
  }
  return free;
}

// Removes the older damaged files beside `file`, whose names tell the time, and returns them.
std::vector<std::filesystem::path> remove_old(const std::filesystem::path& file) {
  std::vector<std::filesystem::path> damaged;
  std::error_code error;
  const std::string begin = file.filename().string() + ".damaged";
  for (std::filesystem::directory_iterator it(file.parent_path(), error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(begin) &&
        std::ranges::none_of(kParts, [&](auto part) { return name.ends_with(part); }))
      damaged.push_back(it->path());
  }
  std::ranges::sort(damaged);
  damaged.resize(damaged.size() - std::min(damaged.size(), Database::kKeptDamaged));
  for (const auto& old : damaged) {
    for (const std::string_view part : kParts) std::filesystem::remove(beside(old, part), error);
    std::filesystem::remove(old, error);
  }
  return damaged;
}

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

// The kind of an error, which says what to do with the file.
enum class Trouble : std::uint8_t {
  lasting,  // the file, or the place where it lies, is not for this program
  passing,  // a read, memory or a lock failed: the next try may go well
  damage,
};

Trouble trouble_of(int code) noexcept {
  switch (code & 0xff) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return Trouble::damage;
    case SQLITE_IOERR:
    case SQLITE_NOMEM:
    case SQLITE_CANTOPEN:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return Trouble::passing;
    default:
      return Trouble::lasting;
  }
}

// The same of a finding of quick_check, which calls a failed read a fault of the page, with SQLite's code.
Trouble trouble_of(std::string_view finding) noexcept {
  constexpr std::string_view kCode = "error code=";
  const std::size_t at = finding.find(kCode);
  int code = SQLITE_CORRUPT;
  if (at != std::string_view::npos)
    std::from_chars(finding.data() + at + kCode.size(), finding.data() + finding.size(), code);
  return trouble_of(code) == Trouble::passing ? Trouble::passing : Trouble::damage;
}

}  // namespace

struct Database::Impl {
  std::filesystem::path file;
  Db db;      // before the statements: they go first
  std::map<std::string, Statement, std::less<>> statements;

  static Result<std::unique_ptr<Impl>> open(const std::filesystem::path& file, Access access, bool for_daemon,
                                            Trouble& trouble);
  Result<void> check_pages(Trouble& trouble);
  // Whether the WAL goes into the file when it is closed: not into one that may be damaged.
  void checkpoint_on_close(bool does) {
    sqlite3_db_config(db.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, does ? 0 : 1, nullptr);
  }

  Result<sqlite3_stmt*> prepared(std::string_view sql);
  Result<void> each(std::string_view sql, std::span<const Value> args,
                    const std::function<bool(Row)>& row_of);
  Result<void> script(const std::string& sql);
  Result<void> transaction(const std::function<Result<void>()>& work);
  Result<std::int64_t> version();
  Result<void> to_newest_schema(Access access, bool for_daemon);
  int failed_with = 0;  // SQLite's code of the latest failure
  std::unexpected<Error> failed() {
    failed_with = sqlite3_errcode(db.get());
    return fail(ErrorCode::io_error, std::string("SQLite: ") + sqlite3_errmsg(db.get()) + ".", {},
                file.string());
  }
};

Result<std::unique_ptr<Database::Impl>> Database::Impl::open(const std::filesystem::path& file, Access access,
                                                             bool for_daemon, Trouble& trouble) {
  trouble = Trouble::lasting;
  const bool writes = access == Access::read_write;
  if (writes) {
    // SQLite would make it for everybody the umask lets in; what apps did is nobody else's to read.
    // Only where it is missing: closing a file drops the locks that this process has on it.
    const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST) return fail_errno(file);
    if (fd >= 0) ::close(fd);
  }
  // SQLite has one message for every file that it cannot open.
  if (!writes && ::faccessat(AT_FDCWD, file.c_str(), R_OK, AT_EACCESS) != 0)
    return fail(ErrorCode::io_error,
                errno == ENOENT
                    ? "There is no such file: no daemon has kept records here yet (flyball serve)."
                    : config::unreadable(file, errno),
                {}, file.string());
  if (std::error_code ignored; !writes && std::filesystem::is_directory(file, ignored))
    return fail(ErrorCode::io_error, "cannot be read: it is a directory: name the flyball.db in it", {},
                file.string());
  auto impl = std::make_unique<Impl>();
  impl->file = file;
  sqlite3* raw = nullptr;
  // A file with a WAL is read by those alone who may write the WAL's index.
  const bool reads_only = access == Access::read_only;
  const int opened = sqlite3_open_v2(
      file.c_str(), &raw, (reads_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) | SQLITE_OPEN_NOMUTEX,
      nullptr);
  impl->db.reset(raw);
  if (opened != SQLITE_OK) {
    trouble = trouble_of(opened);
    return impl->failed();
  }
  if (!reads_only) impl->checkpoint_on_close(false);
  sqlite3_busy_timeout(raw, kBusyMs);
  // Whoever may write the file must not make this program do more than read rows.
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  if (access == Access::salvage) {
    if (auto reads = impl->script("PRAGMA query_only = 1"); !reads) return pass(reads);
    return impl;
  }
  // Readers beside the writer; after a power cut the last transactions may be missing, never half there.
  auto ready =
      writes ? impl->script("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL") : Result<void>{};
  if (ready) ready = impl->to_newest_schema(access, for_daemon);
  if (!ready) {
    trouble = trouble_of(impl->failed_with);
    if (reads_only && impl->failed_with == SQLITE_NOTADB)
      ready.error().message =
          "this file is no database of a daemon: name the flyball.db in the daemon's state_dir";
    // SQLite's codes for a reader that may not write the WAL's index: no place to make it in, or another user's.
    else if (reads_only && ((impl->failed_with & 0xff) == SQLITE_READONLY ||
                            ((impl->failed_with & 0xff) == SQLITE_CANTOPEN &&
                             ::faccessat(AT_FDCWD, beside(file, "-shm").c_str(), W_OK, AT_EACCESS) != 0 &&
                             errno == EACCES)))
      ready.error().message =
          "cannot be read: a reader updates the index of the database's log beside the file, which this user "
          "may not: run the command as the daemon's user";
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

Result<void> Database::Impl::to_newest_schema(Access access, bool for_daemon) {
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
  if (const auto daemon = *found > 0 && !for_daemon ? running_daemon(file.parent_path()) : std::nullopt)
    return fail(ErrorCode::io_error,
                "The file's schema is version " + std::to_string(*found) + ", this program writes version " +
                    std::to_string(newest) + ", and a daemon of another version (" + *daemon +
                    ") uses the file: restart that daemon with this program first.",
                {}, file.string());
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

Result<void> Database::Impl::check_pages(Trouble& trouble) {
  std::string found;
  const auto checked = each("PRAGMA quick_check(1)", {}, [&](Row row) {
    found = text(row[0]);
    return true;
  });
  if (!checked) {
    trouble = trouble_of(failed_with);
    return checked;
  }
  if (found == "ok") return {};
  trouble = trouble_of(found);
  return fail(ErrorCode::io_error, "SQLite: " + found + ".", {}, file.string());
}

Result<Database> Database::open(const std::filesystem::path& file, Access access) {
  Trouble trouble{};
  auto impl = Impl::open(file, access, false, trouble);
  if (!impl) return pass(impl);
  if (access == Access::read_write) (*impl)->checkpoint_on_close(true);
  return Database(std::move(*impl));
}

Result<Database::Opened> Database::open_for_daemon(const std::filesystem::path& file, std::int64_t now) {
  std::optional<SetAside> set_aside;
  const auto deadline = std::chrono::steady_clock::now() + kTryFor;
  auto pause = kFirstPause;
  for (bool damaged = false;;) {
    Trouble trouble{};
    auto impl = Impl::open(file, Access::read_write, true, trouble);
    auto sound = impl ? (*impl)->check_pages(trouble) : Result<void>(pass(std::as_const(impl)));
    if (sound) {
      (*impl)->checkpoint_on_close(true);
      return Opened{Database(std::move(*impl)), std::move(set_aside)};
    }
    if (impl) impl->reset();  // closed: nobody writes it any more
    if (trouble == Trouble::lasting || set_aside) return pass(sound);
    // A read that comes back short looks like damage, too: damage is found again.
    if (trouble == Trouble::damage && std::exchange(damaged, true)) {
      auto aside = move_aside(file, now);
      if (!aside) return pass(aside);
      set_aside = SetAside{std::move(*aside), sound.error().message, remove_old(file)};
      continue;
    }
    if (trouble == Trouble::passing && std::chrono::steady_clock::now() + pause > deadline)
      return pass(sound);
    std::this_thread::sleep_for(pause);
    pause *= 2;
  }
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
