// What `flyball tune` found, kept in the cache directory: one JSON file for each device and driver. Whoever
// can write there can make products slow, not wrong: a file counts only if every value of it is within the
// range that the kernels compute right in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "backends/opencl/tuning.hpp"
#include "config/error.hpp"
#include "config/file_lock.hpp"

namespace flyball::opencl {

// As DeviceFacts and DeviceReport have them.
struct TunedDevice {
  std::string name, driver;
};

struct TuningDb {
  std::int64_t tuned_at = 0;  // seconds since 1970; 0: never
  TuningTable table;
};

// Entries of one file; a model has a dozen.
inline constexpr std::size_t kMaxTunedProducts = 4096;

std::filesystem::path tuning_directory(const std::filesystem::path& cache_directory);
std::filesystem::path tuning_file(const std::filesystem::path& directory, const TunedDevice& device);

// limits: what the device can do; null where nobody has opened it, then only ranges are checked.
// invalid_value with the value, what it may be, and the JSON pointer to it; unsupported_value: of another
// version, device, driver or of other kernels.
Result<TuningDb> parse_tuning(std::string_view text, const TunedDevice& device, const MatmulDevice* limits);
std::string tuning_text(const TuningDb& db, const TunedDevice& device);

// Nothing tuned where there is no file. Errors name the file; also io_error (no file of ours: a link, a pipe, too
// large).
Result<TuningDb> load_tuning(const std::filesystem::path& directory, const TunedDevice& device,
                             const MatmulDevice* limits);
// Makes the directory; written beside and renamed, so that no half of it is ever read. io_error.
Result<void> store_tuning(const std::filesystem::path& directory, const TuningDb& db,
                          const TunedDevice& device);
// The lock of a tuning file for the process that searches, while the returned value lives. Makes the directory. io_error:
// another search has it, or the directory cannot be used.
Result<config::FileLock> lock_tuning(const std::filesystem::path& file);

}  // namespace flyball::opencl
