// The keys of measurements: which model file, which device with which driver.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/probe.hpp"
#include "backends/device_report.hpp"
#include "config/config.hpp"
#include "daemon/measure/figures.hpp"
#include "daemon/measure/roofline.hpp"

namespace flyball::measure {

// An engine as the probe found it: Subject without what is the model's.
struct Engine {
  std::string backend, device, driver;
  Ceilings ceilings = {};                    // where the probe measures them: of the processor
  std::vector<std::string> device_ids = {};  // of a GPU engine, those it opens
  std::vector<std::string> device_kinds = {};  // of the same: discrete, integrated or software
};
// now: seconds since 1970.
Engine processor(const cpu::CpuReport& cpu, std::int64_t now);
// Of the devices of these ids, which the engine spreads a model over; nullopt: there are none.
std::optional<Engine> gpu_engine(const std::string& backend, const DeviceProbe& probe,
                                 std::span<const std::string> ids);

// SHA-256 in hex over a file's size, time of change, first MiB and samples of the rest; of a directory over
// those of its files, by name. Another one for a file that was written over. "": it cannot be read.
std::string model_digest(const std::filesystem::path& path);
// Of an entry of config.yaml: the file's, or the embedded demo model's of this program.
std::string model_digest(const config::ModelEntry& model);

// Digests of files that were looked at before: read again only where size, time of change or inode is
// another.
class Digests {
 public:
  std::string of(const config::ModelEntry& model);
  std::size_t files_read() const noexcept { return files_read_; }  // so far

 private:
  struct Kept {
    std::uint64_t stamp = 0;
    std::string digest;
  };
  std::map<std::filesystem::path, Kept> kept_;
  std::size_t files_read_ = 0;
};

Subject subject_of(const Engine& engine, const std::string& digest, const config::ModelEntry& model);
// Of its device alone.
Subject subject_of(const Engine& engine);

}  // namespace flyball::measure
