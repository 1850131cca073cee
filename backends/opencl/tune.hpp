// `flyball tune`: tries tunings of each product on one device and keeps those that are faster in the tuning
// database (tuning_db.hpp). A candidate that the device refuses, or whose results are not those of the
// shipped tuning, is passed over.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/opencl/options.hpp"
#include "backends/opencl/tuning.hpp"
#include "config/error.hpp"

namespace flyball::opencl {

struct TunedProduct {
  TuningKey key;
  MatmulTuning tuning;
  std::string changes;      // from the shipped one, "" if that stays
  double speedup = 1;       // against the shipped one, measured once more at the end
  std::uint32_t tried = 0;  // candidates, those refused among them
  std::uint32_t refused = 0;
};

struct TuneOptions {
  DeviceOptions device;
  std::filesystem::path directory;  // tuning_directory()
  std::vector<MatrixShape> shapes;
  std::chrono::milliseconds budget{120'000};  // ends with what it has; only a driver can make it longer
  // Told after each product; `done` of `all` are through.
  std::function<void(const TunedProduct&, std::size_t done, std::size_t all)> progress;
};

struct TuneReport {
  std::string device, driver;
  std::filesystem::path file;
  std::vector<TunedProduct> products;
  std::size_t left_out = 0;      // for want of time or memory
  std::optional<Error> stopped;  // the device failed on the way
  std::optional<Error> ignored;  // the tuning file that was there
  double seconds = 0;
};

// invalid_value: a shape that its format cannot have. model_unavailable: no device. io_error: the database
// cannot be written.
Result<TuneReport> tune(const TuneOptions& options);

// The matrices of a 1.1B model in each format, for those who name neither a model nor shapes.
std::vector<MatrixShape> default_shapes(std::span<const kernels::DType> formats);

}  // namespace flyball::opencl
