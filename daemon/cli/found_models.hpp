// The models in the stores of this machine, examined: which of them this build reads, where they fit and how
// fast they should be.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "config/config.hpp"
#include "config/error.hpp"
#include "daemon/cli/check_machine.hpp"
#include "daemon/discover/found.hpp"
#include "daemon/discover/reach.hpp"

namespace flyball::cli {

// A model in one of the memories of this machine, for one sequence of its default context.
struct ModelFit {
  std::string backend, pool;
  bool fits = false;
  std::uint64_t missing = 0;          // bytes by which weights and scratch are too large
  std::uint32_t longest_context = 0;  // tokens
  std::optional<double> decode_tps;   // predicted or measured, for one stream; nullopt: not known
  bool measured = false;
};

struct ExaminedModel {
  discover::FoundModel found;
  discover::StoreKind store = discover::StoreKind::folder;
  std::size_t store_index = 0;  // among those that examine() was given
  std::string id;               // unique among all; of a configured model its own
  bool configured = false;
  std::vector<std::string> aliases;              // further names of Ollama's for the same file, as ids
  std::vector<std::string> also;                 // names of the same file in other stores
  std::string family, quantization;              // "": the file does not say
  std::map<std::string, std::uint64_t> tensors;  // by type
  std::optional<BackendInfo> info;               // nullopt: this build does not read it, for `trouble`
  std::optional<Error> trouble;
  std::vector<ModelFit> fits;
  std::vector<discover::Closing> closed;  // to the reader that examine() was given
};

struct ExamineOptions {
  const config::Config& config;
  std::optional<discover::Reader> reader = {};  // of the files, beside this process
  bool progress = false;                        // on stderr
};
// Every model once, in the order of the stores. Model files are read by child processes, kMostExamined at
// most and for kMostReading at most; the others have `trouble`.
inline constexpr std::size_t kMostExamined = 2000;
inline constexpr std::chrono::minutes kMostReading{5};
std::vector<ExaminedModel> examine(std::span<const discover::StoreContents> stores, Hardware& hardware,
                                   const ExamineOptions& options);

// The model fits into a memory of this machine, with some context.
bool fits_somewhere(const ExaminedModel& model);

// "217 Q4_K, 145 F32, 37 Q6_K"
std::string census_text(const std::map<std::string, std::uint64_t>& tensors);

}  // namespace flyball::cli
