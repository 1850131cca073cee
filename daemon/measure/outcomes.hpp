// From what an engine did to rows of the ledger, and those to the store: on the daemon's thread, which waits
// for no disk.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "daemon/measure/book.hpp"
#include "daemon/measure/prediction_ledger.hpp"
#include "daemon/store/database.hpp"
#include "daemon/store/writer.hpp"

namespace flyball::measure {

// A load that ended well.
struct LoadSeen {
  std::string model, backend;  // ids
  std::uint64_t predicted_bytes = 0,
                actual_bytes = 0;  // as the memory governor had it, and as the engine reports it
  double ms = 0;                   // from the word that it may load
};
// An answer during which its engine had nothing else to do.
struct AnswerSeen {
  std::string model, backend;
  Usage usage;
  Timings timings;
};
// A request that one engine answered, beside the facts that it was decided on. Milliseconds; 0: not known.
struct RequestSeen {
  std::string model, backend;
  double expected_ttft = 0, ttft = 0;
  double expected_tpot = 0, tpot = 0;
};
// Of an engine of this machine that was ready when the facts were gathered.
bool engine_was_idle(const policy::Facts& facts, const std::string& backend);

// Beside what the book expects, before any correction; nothing where it expects nothing, or too little was
// seen.
std::vector<Outcome> outcomes_of(const Book& book, const LoadSeen& load, std::int64_t now);
std::vector<Outcome> outcomes_of(const Book& book, const AnswerSeen& answer, std::int64_t now);
std::vector<Outcome> outcomes_of(const RequestSeen& request, std::int64_t now);
inline constexpr std::uint32_t kLeastDecoded = 16;  // tokens behind the first: fewer say little of a speed

class Outcomes {
 public:
  // Of answers, and of requests, one is kept in so long, of each model and engine.
  static constexpr std::int64_t kSampleSeconds = 10;

  // writer: outlives this; nullptr: nothing survives a restart.
  Outcomes(std::shared_ptr<PredictionLedger> ledger, store::Writer* writer)
      : ledger_(std::move(ledger)), writer_(writer) {}

  void loaded(const Book& book, const LoadSeen& load, std::int64_t now);
  void answered(const Book& book, const AnswerSeen& answer, std::int64_t now);
  void requested(const RequestSeen& request, std::int64_t now);
  const PredictionLedger& ledger() const noexcept { return *ledger_; }

 private:
  using Sampled =
      std::map<std::pair<std::string, std::string>, std::int64_t>;  // by model and backend: when, last
  static bool is_due(Sampled& sampled, const std::string& model, const std::string& backend,
                     std::int64_t now);
  void keep(std::vector<Outcome> outcomes);

  std::shared_ptr<PredictionLedger> ledger_;
  store::Writer* writer_;
  Sampled answers_, requests_;
};

// ---- the store --------------------------------------------------------------------------------------------
// It keeps the latest kMaxStored outcomes, and forgets older ones about every kForgetEvery outcomes.
inline constexpr std::int64_t kMaxStored = 4096, kForgetEvery = 64;
Result<void> save(store::Database& database, const std::vector<Outcome>& outcomes);
Result<PredictionLedger> load_ledger(store::Database& database);

}  // namespace flyball::measure
