#include "backends/engine/cold_kv.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace flyball::engine {
namespace {

// For the disk, before commands are looked at again.
constexpr std::chrono::milliseconds kPatience{5};
// Of a batch: some milliseconds of a disk.
constexpr std::uint64_t kBatchBytes = 4ULL << 20U;
constexpr std::uint64_t kMostBlocks = 8;

}  // namespace

ColdKv::ColdKv(device::Executor& executor, spill::KvSpill& spill)
    : executor_(executor),
      spill_(spill),
      batch_(static_cast<std::uint32_t>(
          std::clamp<std::uint64_t>(kBatchBytes / spill.block_bytes(), 1, kMostBlocks))) {}

std::size_t ColdKv::save_batch(std::span<const kv::KeyedBlock> blocks) {
  const std::size_t most = std::min<std::size_t>(batch_, spill_.room());
  std::vector<const kv::KeyedBlock*> chosen;
  std::vector<spill::KvSpill::Bytes> bytes;
  std::vector<device::BlockRead> reads;
  std::size_t done = 0;
  for (; done < blocks.size() && chosen.size() < most; ++done) {
    if (spill_.knows(blocks[done].key)) continue;
    chosen.push_back(&blocks[done]);
    bytes.push_back(spill_.buffer());
    reads.push_back({blocks[done].block, bytes.back()});
  }
  if (reads.empty()) return done;
  if (auto ok = executor_.read_blocks(reads); !ok) {
    spill_.turn_off("KV cannot be spilled: " + ok.error().message);
    return blocks.size();
  }
  for (std::size_t i = 0; i < chosen.size(); ++i)
    spill_.put(chosen[i]->key, chosen[i]->root, std::move(bytes[i]));
  return done;
}

void ColdKv::save_evicted(std::vector<kv::KeyedBlock> blocks) noexcept {
  if (blocks.empty()) return;
  or_turn_off([&] {
    std::ranges::stable_sort(blocks, {}, &kv::KeyedBlock::depth);
    std::span<const kv::KeyedBlock> left = blocks;
    while (!left.empty() && spill_.room() > 0) left = left.subspan(save_batch(left));
  });
}

void ColdKv::work_was_done() noexcept {
  unsaved_ = true;
  pending_.clear();  // its blocks may be others' now
  next_ = 0;
}

void ColdKv::start(const kv::KvAccountant& kv) {
  pending_ = kv.keyed_blocks();
  next_ = 0;
}

void ColdKv::save_some(const kv::KvAccountant& kv) noexcept {
  or_turn_off([&] {
    if (!saving()) start(kv);
    if (spill_.wait_room(std::chrono::steady_clock::now() + kPatience))
      next_ += save_batch(std::span(pending_).subspan(next_));
  });
  if (next_ < pending_.size() && spill_.on()) return;
  work_was_done();
  unsaved_ = false;
}

void ColdKv::save_all(const kv::KvAccountant& kv, TimePoint until) noexcept {
  or_turn_off([&] {
    start(kv);
    while (next_ < pending_.size() && spill_.on() && std::chrono::steady_clock::now() < until &&
           spill_.wait_room(until))
      next_ += save_batch(std::span(pending_).subspan(next_));
  });
  spill_.flush(until);
  work_was_done();
}

std::uint32_t ColdKv::restore(std::span<const PlannedRestore> blocks) noexcept {
  std::uint32_t restored = 0;
  or_turn_off([&] { restored = try_restore(blocks); });
  return restored;
}

std::uint32_t ColdKv::try_restore(std::span<const PlannedRestore> blocks) {
  std::vector<spill::MappedBlock> mapped;
  std::vector<device::BlockWrite> writes;
  mapped.reserve(blocks.size());
  for (const PlannedRestore& planned : blocks) {
    auto block = spill_.map(planned.key);
    if (!block) break;
    mapped.push_back(std::move(*block));
    writes.push_back({planned.block, mapped.back().bytes()});
  }
  if (writes.empty()) return 0;
  if (auto ok = executor_.write_blocks(writes); !ok) {
    spill_.turn_off("KV cannot be restored: " + ok.error().message);
    return 0;
  }
  return static_cast<std::uint32_t>(writes.size());
}

}  // namespace flyball::engine
