// What the daemon knows of its engines' speed, by model of its configuration: what was measured, and what
// stands in for it until it is. Made once, then asked at every request.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/measure/figures.hpp"
#include "daemon/measure/prediction_ledger.hpp"
#include "daemon/measure/roofline.hpp"
#include "daemon/measure/subject.hpp"
#include "policy/facts.hpp"

namespace flyball::measure {

using ModelSizes = std::map<std::string, ModelSize>;  // by id in config.yaml

// Threads of the cpu engine that targets without a profile share, and those that this process may run at
// once. 0: not known.
struct CpuThreads {
  std::uint32_t shared = 0, usable = 0;
};
// The speed at which an engine of its own reads prompts, as a multiple of its kind's measured engine: in
// proportion to their threads on the processor. Decoding is bound by reading the weights, which few threads
// do as fast as many: it counts as the kind's. 1 where nothing tells them apart.
double prefill_share(const policy::TargetInstance& engine, const CpuThreads& threads);

// What a book knows beside measurements.
struct BookOptions {
  ModelSizes sizes = {};                                     // of models that predictions are made for
  std::shared_ptr<const PredictionLedger> ledger = nullptr;  // corrects them; nullptr: nothing does
  Digests* digests = nullptr;                                // those known already; nullptr: files are read
};

class Book {
 public:
  Book() = default;
  // Of all measurements those of these engines and of the models as they are configured and lie on the disk
  // now: reads the models' files (their digests), nothing else. Predictions go by an engine's measured
  // ceilings, else by those assumed of its devices' class.
  Book(std::span<const Measured> measured, std::span<const Engine> engines,
       std::span<const config::ModelEntry> models, BookOptions options = {});

  // backend.<id>.decode_tps and the like for this model, at the concurrency and prompt length that the app's
  // facts declare (else 1 stream, and a prompt of kPromptTokens). Predictions have a source that begins with
  // policy::kPredictedSource, and no age: a record of a request keeps that of each source. now: seconds since
  // 1970. An engine of its own gets its kind's figures, those of prompts by prefill_share().
  void set_facts(const std::string& model, std::int64_t now, policy::Facts& facts,
                 const CpuThreads& threads = {}) const;
  static constexpr std::uint32_t kPromptTokens = 512;

  // What set_facts goes by, before correction.
  struct Expected {
    double value = 0;
    Basis basis = Basis::roofline;
  };
  std::optional<Expected> expected(const std::string& model, const std::string& backend, Kind kind,
                                   std::uint32_t at, std::int64_t now) const;
  // The same, corrected by the ledger.
  std::optional<Expected> likely(const std::string& model, const std::string& backend, Kind kind,
                                 std::uint32_t at, std::int64_t now) const;

  // A book that was made later has a larger one, a copy the same. 0: an empty one.
  std::uint64_t generation() const noexcept { return generation_; }

  // The engine's ceilings were measured, and count at `now`.
  bool knows_ceilings(const std::string& backend, std::int64_t now) const;

  // The engine's device and driver, as the probe found them; nullptr: it did not.
  struct Found {
    std::string device, driver;
  };
  const Found* found(const std::string& backend) const;

  // Every figure that calibrate takes of any model.
  bool is_measured(const std::string& model, const std::string& backend, std::int64_t now) const;

  bool empty() const noexcept { return figures_.empty(); }
  // Pairs of model and engine that were measured.
  std::size_t size() const noexcept { return figures_.size(); }

 private:
  using Pair = std::pair<std::string, std::string>;  // model id and backend
  void set_facts_of(const policy::TargetInstance& engine, const std::string& model, std::int64_t now,
                    const CpuThreads& threads, policy::Facts& facts) const;
  const std::vector<Figure>& figures_of(const Pair& pair) const;
  struct Prior {
    Roofline roofline;
    Basis basis = Basis::roofline;
  };
  struct Predicted {
    const Prior* prior = nullptr;
    Roofline::Prediction of;
  };
  std::optional<Predicted> predicted(const Pair& pair, Kind kind, std::uint32_t at, std::int64_t now) const;

  std::map<Pair, std::vector<Figure>> figures_;
  std::map<Pair, std::vector<Prior>> priors_;                // those of measured ceilings first
  std::map<std::string, Found> found_;                       // by backend
  std::map<std::string, std::int64_t> ceilings_at_;          // by backend: when they were measured
  std::map<std::string, std::vector<std::string>> engines_;  // by model: those of either
  std::shared_ptr<const PredictionLedger> ledger_;
  std::uint64_t generation_ = 0;
};

}  // namespace flyball::measure
