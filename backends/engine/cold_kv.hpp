// KV between the device's memory and the disk: which blocks are saved when, and how they come back. The
// engine thread's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string_view>
#include <vector>

#include "backends/device/executor.hpp"
#include "backends/engine/scheduler.hpp"
#include "backends/spill/kv_spill.hpp"

namespace flyball::engine {

class ColdKv final : public ColdBlocks {
 public:
  // Both outlive it.
  ColdKv(device::Executor& executor, spill::KvSpill& spill);

  // Blocks moved at once: few, so that a step waits little for the disk.
  std::uint32_t batch() const noexcept { return batch_; }

  bool holds(const kv::ChainKey& key) const override { return spill_.holds(key); }

  // On the disk, or on its way there.
  bool knows(const kv::ChainKey& key) const { return spill_.knows(key); }

  // Nothing of what follows throws: the disk is worth no request, and without memory for it there is none.
  //
  // Blocks that the next step may overwrite: as many as the queue takes, the first of each run first, since
  // the later ones are of no use without them.
  void save_evicted(std::vector<kv::KeyedBlock> blocks) noexcept;

  // ---- without work: all that is kept, step by step -------------------------------------------------------
  void work_was_done() noexcept;
  bool has_unsaved() const noexcept { return unsaved_ && spill_.on(); }
  bool saving() const noexcept { return !pending_.empty(); }
  // Some more of it; waits a little where the queue is full. Precondition: has_unsaved().
  void save_some(const kv::KvAccountant& kv) noexcept;
  // The whole of it, and until it is written, but no longer.
  void save_all(const kv::KvAccountant& kv, TimePoint until) noexcept;

  // How many of them, from the first on, have their bytes again.
  std::uint32_t restore(std::span<const PlannedRestore> blocks) noexcept;
  // What this owner's requests have computed is not to be trusted.
  void forget(const kv::ChainKey& space, std::string_view owner) noexcept {
    or_turn_off([&] { spill_.forget(kv::root_key(space, owner)); });
  }

 private:
  template <class Work>
  void or_turn_off(Work work) noexcept {
    try {
      work();
    } catch (const std::bad_alloc&) {
      spill_.turn_off("Out of memory.");  // short enough for a string to hold it without memory
    }
  }
  void start(const kv::KvAccountant& kv);
  std::uint32_t try_restore(std::span<const PlannedRestore> blocks);
  // At most a batch of the blocks that the disk has not; how many of `blocks` are dealt with.
  std::size_t save_batch(std::span<const kv::KeyedBlock> blocks);

  device::Executor& executor_;
  spill::KvSpill& spill_;
  const std::uint32_t batch_;
  bool unsaved_ = false;                 // something was computed since all was saved
  std::vector<kv::KeyedBlock> pending_;  // being saved: from next_ on
  std::size_t next_ = 0;
};

}  // namespace flyball::engine
