// Decided requests that outlive the ring and the daemon: what each was decided on and what became of it,
// never a prompt. In the store's tables `decisions`, `decision_frames` (facts that many share) and
// `decision_policies`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "daemon/route/receipts.hpp"
#include "daemon/store/database.hpp"
#include "daemon/store/writer.hpp"
#include "policy/graph.hpp"

namespace flyball::route {

// A record is kept until one of the two limits is reached. It takes 0.7 KB of the file
// (tests/daemon/route/records_test.cpp), all of them 70 MB.
inline constexpr std::int64_t kMaxRecords = 100'000;
inline constexpr std::int64_t kMaxRecordAge = 30LL * 24 * 3600;  // seconds

// Writes records from the daemon's thread, without waiting for the disk.
class ReceiptStore {
 public:
  // Without a writer nothing is kept. It outlives this.
  explicit ReceiptStore(store::Writer* writer) : writer_(writer) {}

  // The request is over. One that was never decided on leaves no record.
  void keep(const Receipt& receipt);
  // `found` is called once, on the writer's thread, with what find_record() gives, also while nothing can be
  // written. False: it is not called, nothing is kept or too many look already.
  bool find(std::string request_id, std::string app,
            std::function<void(Result<std::optional<Receipt>>)> found) const;

 private:
  // A delta longer than this makes its facts the next frame, where the last one has served so many records.
  static constexpr std::size_t kMaxDelta = 768;
  static constexpr std::uint32_t kFrameUses = 8;
  // In memory, for as many pairs of an app and a model; the one used longest ago makes room.
  static constexpr std::size_t kMaxFrames = 256;
  static constexpr std::uint32_t kPruneEvery = 1000;

  struct Frame {
    policy::Facts facts;
    std::shared_ptr<const std::string> text;
    std::int64_t key = 0;  // digest of the text
    std::uint32_t uses = 0;
    std::uint64_t last_used = 0;  // the value of kept_
  };
  store::Writer* writer_;
  std::unordered_map<std::string, Frame> frames_;  // by app and model
  std::uint64_t kept_ = 0;
};

// One record as it is read back.
struct Record {
  RequestRecord request;
  std::string rule, target;  // of the decision: "default", "vulkan:latency"; target "" where none was chosen
  policy::Facts facts;
};

// The receipt of a past request of this app ("": of any), its decision taken again from the facts and the
// policy it was decided by. nullopt: there is none. receipt_outdated: this version of the program reads that
// policy in another way.
Result<std::optional<Receipt>> find_record(store::Database& database, std::string_view request_id,
                                           std::string_view app);
// Every record since then (seconds since the epoch), in the order of their ends, with as many of its facts as
// the catalogue has.
Result<void> each_record(store::Database& database, std::int64_t since,
                         const std::function<void(const Record&)>& each,
                         const policy::Targets& targets = policy::default_targets());
// How many requests each rule decided since then.
Result<policy::RuleCounts> count_by_rule(store::Database& database, std::int64_t since);

}  // namespace flyball::route
