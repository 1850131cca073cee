// The way out of an engine and back: blocks wait in a bounded queue for the one thread that writes them, so
// that no step waits for a disk; what finds the queue full is not spilled. The first thing that goes wrong
// with the disk turns spilling off for as long as this engine runs.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backends/spill/spill_store.hpp"

namespace flyball::spill {

class KvSpill {
 public:
  using Bytes = std::vector<std::byte>;
  struct Counts {
    std::uint64_t blocks = 0, bytes = 0;  // written
  };

  // off: told once, in one sentence, when spilling is turned off; on either thread.
  KvSpill(std::unique_ptr<SpillStore> store, std::uint64_t block_bytes,
          std::function<void(const std::string&)> off = {});
  KvSpill(const KvSpill&) = delete;
  KvSpill& operator=(const KvSpill&) = delete;
  ~KvSpill();  // what still waits is not written: flush() first

  // ---- the engine thread ----------------------------------------------------------------------------------
  std::uint64_t block_bytes() const noexcept { return block_bytes_; }
  bool on() const noexcept { return on_; }
  bool holds(const kv::ChainKey& key) const { return on() && store_->contains(key); }
  // On the disk, or on its way there.
  bool knows(const kv::ChainKey& key) const;
  // How many more blocks the queue takes now.
  std::size_t room() const;
  // Memory for a block's bytes, to be given to put().
  Bytes buffer();
  // False: the queue is full, or spilling is off.
  bool put(const kv::ChainKey& key, const kv::ChainKey& root, Bytes bytes);
  // Until there is room, or all is written; false: not in time.
  bool wait_room(std::chrono::steady_clock::time_point until);
  bool flush(std::chrono::steady_clock::time_point until);
  // nullopt: it cannot be had (any more), and holds() will say so.
  std::optional<MappedBlock> map(const kv::ChainKey& key);
  // Nothing of this owner's is to be trusted.
  void forget(const kv::ChainKey& root);
  // Whatever went wrong outside.
  void turn_off(const std::string& why);

  // ---- any thread -----------------------------------------------------------------------------------------
  Counts counts() const;

 private:
  struct Item {
    kv::ChainKey key, root;
    Bytes bytes;
  };
  void write_all();
  void keep(Bytes bytes) noexcept;  // for the next block; under mutex_

  const std::unique_ptr<SpillStore> store_;
  const std::uint64_t block_bytes_;
  const std::size_t most_;  // blocks that wait
  const std::function<void(const std::string&)> told_off_;
  std::atomic<bool> on_{true};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // mutex_ from here on
  std::deque<Item> queue_;  // the first one is being written while writing_
  std::set<kv::ChainKey> under_way_;
  std::vector<Bytes> spare_;
  bool writing_ = false, ending_ = false;
  std::uint64_t finished_ = 0;  // writes
  Counts counts_;

  std::thread thread_;
};

}  // namespace flyball::spill
