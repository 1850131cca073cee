#include "backends/opencl/tuning_db.hpp"

#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include "backends/device/cache_directory.hpp"
#include "backends/device/kernel_cache.hpp"
#include "backends/opencl/programs.hpp"

namespace flyball::opencl {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using device::CacheDirectory;
using device::digest_of;

constexpr std::string_view kSchema = "flyball.opencl-tuning/v1";
constexpr std::size_t kMaxFile = std::size_t{4} << 20;  // kMaxTunedProducts are 2 MiB
constexpr std::uint32_t kMaxSide = 1U << 24;            // rows or columns of a matrix
constexpr CacheDirectory::Trust kTrust = CacheDirectory::Trust::anybody;
constexpr std::int64_t kMaxTime = 253'402'300'799;  // the end of the year 9999

// Other kernels have other best parameters.
std::string kernels_digest() {
  std::vector<std::string_view> texts;
  for (const char* file : {"format_table", "weights", "matvec", "matmul_panel", "matmul_tile"})
    texts.push_back(kernel_source(file));
  return digest_of(texts);
}

// The first thing wrong ends the reading.
class Reader {
 public:
  // The member if it is there and of the type, else null.
  const Json* member(const Json& object, const std::string& at, const char* key, Json::value_t type) {
    const auto it = object.find(key);
    if (it == object.end()) return wrong(ErrorCode::invalid_value, "is missing", at + "/" + key);
    if (it->type() == type) return &*it;
    return wrong(ErrorCode::invalid_value, "is " + shown(*it) + ", not " + Json(type).type_name(),
                 at + "/" + key);
  }
  std::uint32_t number(const Json& object, const std::string& at, const char* key, std::int64_t most) {
    return static_cast<std::uint32_t>(time(object, at, key, most));
  }
  std::int64_t time(const Json& object, const std::string& at, const char* key, std::int64_t most) {
    const Json* value = member(object, at, key, Json::value_t::number_unsigned);
    if (value == nullptr) return 0;
    const auto n = value->get<std::uint64_t>();
    if (n >= 1 && n <= static_cast<std::uint64_t>(most)) return static_cast<std::int64_t>(n);
    wrong(ErrorCode::invalid_value, "is " + std::to_string(n) + "; it must be 1 to " + std::to_string(most),
          at + "/" + key);
    return 0;
  }
  std::string text(const Json& object, const std::string& at, const char* key) {
    const Json* value = member(object, at, key, Json::value_t::string);
    return value == nullptr ? std::string() : value->get<std::string>();
  }
  void expect(const Json& object, const char* key, const std::string& expected) {
    const std::string found = text(object, "", key);
    if (!error_ && found != expected)
      wrong(ErrorCode::unsupported_value, "is " + shown(found) + ", not " + shown(expected),
            std::string("/") + key);
  }
  std::nullptr_t wrong(ErrorCode code, const std::string& what, const std::string& where) {
    if (!error_) error_ = Error{code, "A value of the tuning file " + what + ".", "", where};
    return nullptr;
  }
  const std::optional<Error>& error() const noexcept { return error_; }

 private:
  // Short, and nothing that a terminal would obey. What holds others goes by its kind: dump() calls itself
  // for each level of it, and a file may have more levels than a stack has room for.
  static std::string shown(const Json& value) {
    if (value.is_structured()) return std::string("an ") + value.type_name();
    std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > 80) text = text.substr(0, 80) + "...";
    return text;
  }
  std::optional<Error> error_;
};

std::optional<RowClass> class_named(std::string_view name) {
  for (const RowClass c : kRowClasses)
    if (to_string(c) == name) return c;
  return std::nullopt;
}

void read_product(Reader& reader, const Json& row, const std::string& at, const MatmulDevice* limits,
                  TuningTable& table) {
  if (!row.is_object()) return (void)reader.wrong(ErrorCode::invalid_value, "is no object", at);
  const auto type = kernels::dtype_named(reader.text(row, at, "format"));
  const auto rows_of_x = class_named(reader.text(row, at, "rows_of_x"));
  TuningKey key;
  key.matrix.rows = reader.number(row, at, "rows", kMaxSide);
  key.matrix.cols = reader.number(row, at, "cols", kMaxSide);
  const Json* parameters = reader.member(row, at, "parameters", Json::value_t::object);
  if (reader.error()) return;
  if (!type) return (void)reader.wrong(ErrorCode::invalid_value, "is no format", at + "/format");
  if (!rows_of_x)
    return (void)reader.wrong(ErrorCode::invalid_value, "is not 1, 2-8 or 9+", at + "/rows_of_x");
  key.matrix.type = *type;
  key.rows = *rows_of_x;
  MatmulTuning tuning;
  for (const TuningParameter& p : tuning_parameters())
    p.of(tuning) = reader.number(*parameters, at + "/parameters", std::string(p.name).c_str(), p.most);
  if (reader.error()) return;
  const std::string why = limits != nullptr ? refusal(*limits, tuning) : out_of_range(tuning);
  if (!why.empty())
    return (void)reader.wrong(ErrorCode::invalid_value, "does not fit: " + why, at + "/parameters");
  table.set(key, tuning);
}

}  // namespace

fs::path tuning_directory(const fs::path& cache_directory) {
  return cache_directory.empty() ? fs::path() : cache_directory / "opencl-tuning";
}

fs::path tuning_file(const fs::path& directory, const TunedDevice& device) {
  const std::string_view parts[] = {device.name, device.driver};
  return directory / (digest_of(parts).substr(0, 16) + ".json");
}

Result<TuningDb> parse_tuning(std::string_view text, const TunedDevice& device, const MatmulDevice* limits) {
  const Json document = Json::parse(text, nullptr, false);
  if (!document.is_object()) return fail(ErrorCode::invalid_value, "The tuning file is no JSON object.");
  Reader reader;
  reader.expect(document, "schema", std::string(kSchema));
  reader.expect(document, "device", device.name);
  reader.expect(document, "driver", device.driver);
  reader.expect(document, "kernels", kernels_digest());
  TuningDb db;
  db.tuned_at = reader.time(document, "", "tuned_at", kMaxTime);
  db.table = TuningTable(limits != nullptr ? default_tuning(*limits) : MatmulTuning());
  const Json* products = reader.member(document, "", "products", Json::value_t::array);
  if (!reader.error() && products->size() > kMaxTunedProducts)
    reader.wrong(ErrorCode::invalid_value,
                 "has " + std::to_string(products->size()) + " entries; it may have " +
                     std::to_string(kMaxTunedProducts),
                 "/products");
  for (std::size_t i = 0; !reader.error() && i < products->size(); ++i)
    read_product(reader, (*products)[i], "/products/" + std::to_string(i), limits, db.table);
  if (limits != nullptr)
    for (const auto& [key, tuning] : db.table.tuned())
      if (key.rows != RowClass::many && !same_sums(*limits, db.table.at({key.matrix, RowClass::one}),
                                                   db.table.at({key.matrix, RowClass::few})))
        reader.wrong(ErrorCode::invalid_value,
                     "sums 1 and 2 to 8 rows of " + to_string(key.matrix) + " in different orders",
                     "/products");
  if (reader.error()) return std::unexpected(*reader.error());
  return db;
}

std::string tuning_text(const TuningDb& db, const TunedDevice& device) {
  Json products = Json::array();
  for (const auto& [key, tuning] : db.table.tuned()) {
    Json parameters = Json::object();
    for (const TuningParameter& p : tuning_parameters()) parameters[std::string(p.name)] = p.value(tuning);
    products.push_back({{"format", kernels::to_string(key.matrix.type)},
                        {"rows", key.matrix.rows},
                        {"cols", key.matrix.cols},
                        {"rows_of_x", to_string(key.rows)},
                        {"parameters", std::move(parameters)}});
  }
  const Json document{{"schema", kSchema},
                      {"device", device.name},
                      {"driver", device.driver},
                      {"kernels", kernels_digest()},
                      {"tuned_at", static_cast<std::uint64_t>(db.tuned_at)},
                      {"products", std::move(products)}};
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<TuningDb> load_tuning(const fs::path& directory, const TunedDevice& device,
                             const MatmulDevice* limits) {
  TuningDb none;
  none.table = TuningTable(limits != nullptr ? default_tuning(*limits) : MatmulTuning());
  if (directory.empty()) return none;
  const fs::path path = tuning_file(directory, device);
  std::error_code ec;
  if (!fs::exists(path, ec) && !ec) return none;
  const auto opened = CacheDirectory::open(directory, kTrust);
  if (!opened) return pass(opened);
  const auto text = opened->read(path.filename(), kMaxFile);
  if (!text) return pass(text);
  auto db = parse_tuning(*text, device, limits);
  if (!db) db.error().where = path.string() + (db.error().where.empty() ? "" : ":" + db.error().where);
  return db;
}

Result<void> store_tuning(const fs::path& directory, const TuningDb& db, const TunedDevice& device) {
  const fs::path path = tuning_file(directory, device);
  const auto made = CacheDirectory::make(directory, kTrust);
  if (!made) return pass(made);
  const std::string text = tuning_text(db, device);
  const std::string_view parts[] = {text};
  return made->write(path.filename(), parts);
}

Result<config::FileLock> lock_tuning(const fs::path& file) {
  if (const auto made = CacheDirectory::make(file.parent_path(), kTrust); !made) return pass(made);
  fs::path name = file;
  auto lock = config::FileLock::open(name += ".lock");
  if (!lock) return lock;
  if (!lock->try_take(config::FileLock::Mode::alone))
    return errno == EWOULDBLOCK
               ? fail(ErrorCode::io_error,
                      "Another flyball tune (" + config::signer(name) +
                          ") tunes this device: wait for its end, or stop it; it keeps what it has found.",
                      {}, file.string())
               : fail(ErrorCode::io_error,
                      std::string("The tuning file cannot be locked: ") + std::strerror(errno) + ".", {},
                      file.string());
  config::sign(name);
  return lock;
}

}  // namespace flyball::opencl
