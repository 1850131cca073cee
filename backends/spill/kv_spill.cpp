#include "backends/spill/kv_spill.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace flyball::spill {
namespace {

// Memory of blocks that wait for the disk.
constexpr std::uint64_t kQueueBytes = 64ULL << 20U;
// For the write that is under way, when what it writes may be wrong.
constexpr std::chrono::seconds kForgetPatience{5};
constexpr std::uint64_t kLeastQueued = 2, kMostQueued = 4096;
// Buffers that are kept for the next blocks; what a burst needed beyond them is given back.
constexpr std::size_t kSpares = 8;

}  // namespace

KvSpill::KvSpill(std::unique_ptr<SpillStore> store, std::uint64_t block_bytes,
                 std::function<void(const std::string&)> off)
    : store_(std::move(store)),
      block_bytes_(block_bytes),
      most_(std::clamp(kQueueBytes / block_bytes, kLeastQueued, kMostQueued)),
      told_off_(std::move(off)) {
  spare_.reserve(kSpares);
  thread_ = std::thread([this] { write_all(); });
}

KvSpill::~KvSpill() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool KvSpill::knows(const kv::ChainKey& key) const {
  {
    const std::lock_guard lock(mutex_);
    if (under_way_.contains(key)) return true;
  }
  return store_->contains(key);
}

std::size_t KvSpill::room() const {
  const std::lock_guard lock(mutex_);
  return on_ ? most_ - std::min(most_, queue_.size()) : 0;
}

KvSpill::Bytes KvSpill::buffer() {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      Bytes bytes = std::move(spare_.back());
      spare_.pop_back();
      return bytes;
    }
  }
  return Bytes(block_bytes_);
}

bool KvSpill::put(const kv::ChainKey& key, const kv::ChainKey& root, Bytes bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (!on_ || queue_.size() >= most_) {
      keep(std::move(bytes));
      return false;
    }
    queue_.push_back({key, root, std::move(bytes)});
    try {
      under_way_.insert(key);
    } catch (const std::bad_alloc&) {
      queue_.pop_back();
      throw;
    }
  }
  changed_.notify_all();
  return true;
}

void KvSpill::keep(Bytes bytes) noexcept {
  if (on_ && spare_.size() < kSpares) spare_.push_back(std::move(bytes));
}

bool KvSpill::wait_room(std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, until, [this] { return !on_ || queue_.size() < most_; });
}

bool KvSpill::flush(std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, until, [this] { return !on_ || queue_.empty(); });
}

std::optional<MappedBlock> KvSpill::map(const kv::ChainKey& key) {
  if (!on_) return std::nullopt;
  auto block = store_->map(key);
  if (block) return std::optional<MappedBlock>(std::move(*block));
  if (block.error().code == ErrorCode::io_error) turn_off(block.error().message);
  return std::nullopt;
}

void KvSpill::forget(const kv::ChainKey& root) {
  std::unique_lock lock(mutex_);
  const auto begin = queue_.begin() + (writing_ ? 1 : 0);
  const auto kept = std::remove_if(begin, queue_.end(), [&](const Item& item) {
    if (item.root != root) return false;
    under_way_.erase(item.key);
    return true;
  });
  queue_.erase(kept, queue_.end());
  // What is being written may be this owner's, too.
  const std::uint64_t before = finished_;
  if (!changed_.wait_for(lock, kForgetPatience, [&] { return !writing_ || finished_ != before; })) {
    lock.unlock();
    turn_off("KV cannot be spilled: the disk does not answer.");
    lock.lock();
  }
  store_->forget(root);
}

void KvSpill::turn_off(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!on_.exchange(false)) return;
    under_way_.clear();
    spare_.clear();
    queue_.erase(queue_.begin() + (writing_ ? 1 : 0), queue_.end());
  }
  changed_.notify_all();
  try {
    if (told_off_) told_off_(why);
  } catch (const std::bad_alloc&) {
    // Nobody hears why; the counters say that it is off.
  }
}

KvSpill::Counts KvSpill::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void KvSpill::write_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (ending_) return;
    writing_ = true;
    const Item& item = queue_.front();  // stays where it is: only this thread takes the first one away
    lock.unlock();
    Result<void> done;
    try {
      done = store_->append(item.key, item.root, item.bytes);
    } catch (const std::bad_alloc&) {
      done = fail(ErrorCode::insufficient_memory, "KV cannot be spilled: out of memory.");
    }
    if (!done) turn_off(done.error().message);
    lock.lock();
    writing_ = false;
    ++finished_;
    under_way_.erase(queue_.front().key);
    keep(std::move(queue_.front().bytes));
    queue_.pop_front();
    if (done) {
      ++counts_.blocks;
      counts_.bytes += block_bytes_;
    }
    changed_.notify_all();
  }
}

}  // namespace flyball::spill
