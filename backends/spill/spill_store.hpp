// Blocks of KV in files: a directory of segments under one bound, shared by all engines of a machine. An
// engine appends to segments of its own and reads those of its own form (space) that were there when it
// came; what was used longest ago goes first, a segment at a time, whoever wrote it. What is written counts
// only by its checksums, so a process that dies in the middle of a write leaves nothing that could be taken
// for a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/device/cache_directory.hpp"
#include "backends/spill/format.hpp"
#include "config/descriptor.hpp"
#include "config/error.hpp"

namespace flyball::spill {

// The file beside the segments that a process locks while it makes room, or while its sweep begins or ends.
inline constexpr const char* kChangeLock = "lock";

// What the store asks of the system, and tests make fail.
enum class Call : std::uint8_t { create, write, map };

struct StoreOptions {
  std::filesystem::path directory;  // made if need be, for this user alone: what users said is in it
  // Of all segments in it together. Never more than a quarter of what they and the free space come to.
  std::uint64_t max_bytes = 0;
  std::function<int(Call)> interceptor;  // 0, or the errno that the call fails with
};

// The bytes of a block, mapped from its file and found to be those that were written.
class MappedBlock {
 public:
  MappedBlock(std::span<const std::byte> mapping, std::span<const std::byte> bytes)
      : mapping_(mapping), bytes_(bytes) {}
  MappedBlock(MappedBlock&& other) noexcept
      : mapping_(std::exchange(other.mapping_, {})), bytes_(other.bytes_) {}
  MappedBlock& operator=(MappedBlock&&) = delete;
  ~MappedBlock();
  std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> mapping_, bytes_;
};

// Removes every segment of the directory, of any space, in which a block is of none of these owners, with
// what others have there. Engines that run do without them, and may write more of such a block that they
// still hold. The caller excludes other daemons, whose apps it does not know (SharedDirectory). Returns how
// many went; fewer where it is told to stop. io_error: the directory cannot be read; one that is not there
// holds none.
Result<std::size_t> remove_all_but(const std::filesystem::path& directory,
                                   std::span<const std::string> owners, const std::stop_token& stop);

class SpillStore {
 public:
  // io_error: the directory cannot be used, or max_bytes holds too few blocks of block_bytes (> 0) each.
  static Result<std::unique_ptr<SpillStore>> open(StoreOptions options, const kv::ChainKey& space,
                                                  std::uint64_t block_bytes);
  SpillStore(const SpillStore&) = delete;
  SpillStore& operator=(const SpillStore&) = delete;

  // ---- any thread -----------------------------------------------------------------------------------------
  bool contains(const kv::ChainKey& key) const;
  // io_error: it could not be read. not_found: it is not (any longer) what was written, or not there at
  // all. Either way the store does not have it any more.
  Result<MappedBlock> map(const kv::ChainKey& key);
  // Nothing of this owner's is found from here on, nor after a restart.
  void forget(const kv::ChainKey& root);
  std::size_t blocks() const;

  // ---- one thread -----------------------------------------------------------------------------------------
  // Precondition: block_bytes bytes.
  // io_error: no room, or what the system says; nothing is left of the block then.
  Result<void> append(const kv::ChainKey& key, const kv::ChainKey& root, std::span<const std::byte> bytes);

  const std::filesystem::path& directory() const noexcept { return options_.directory; }

 private:
  struct Segment {
    std::string name;
    std::uint64_t size = 0;        // the appending thread's
    std::set<kv::ChainKey> roots;  // mutex_: whose blocks are in it
    bool written = false;          // mutex_: still being appended to, by this store
    bool gone = false;             // mutex_: unlinked
  };
  struct Place {
    std::shared_ptr<Segment> segment;
    std::uint64_t at = 0;  // of the payload
    Checksum payload{};
  };
  struct KeyHash {  // of what is a hash already
    std::size_t operator()(const kv::ChainKey& key) const noexcept;
  };
  struct Listed {
    std::string name;
    std::uint64_t size = 0;
    std::pair<std::int64_t, std::int64_t> used;
  };

  SpillStore(StoreOptions options, device::CacheDirectory directory, const kv::ChainKey& space,
             std::uint64_t block_bytes);
  int intercept(Call call) const { return options_.interceptor ? options_.interceptor(call) : 0; }
  std::unexpected<Error> failure(const char* what, int error) const;
  std::uint64_t stride() const noexcept { return kRecordHeaderBytes + block_bytes_; }
  Result<std::vector<Listed>> list() const;
  void scan();
  void read_records(const std::shared_ptr<Segment>& segment, int file, std::uint64_t size);
  Result<MappedBlock> map_at(const Place& place) const;
  bool active_is_full() const;
  void close_active();
  Result<void> start_segment();
  Result<void> make_room(std::uint64_t bytes);
  Result<void> write(Segment& to, const RecordHeader& header, std::span<const std::byte> bytes);
  void insert(const RecordHeader& header, const std::shared_ptr<Segment>& segment, std::uint64_t at);
  void drop(const std::shared_ptr<Segment>& segment);  // mutex_ is held
  void remove(const std::shared_ptr<Segment>& segment);

  const StoreOptions options_;
  const device::CacheDirectory directory_;
  const kv::ChainKey space_;
  const std::uint64_t block_bytes_, segment_bytes_, check_bytes_;

  mutable std::mutex mutex_;
  std::unordered_map<kv::ChainKey, Place, KeyHash> index_;  // mutex_
  std::vector<std::shared_ptr<Segment>> segments_;          // mutex_

  // The appending thread's.
  std::shared_ptr<Segment> active_;
  Descriptor active_file_;
  std::uint64_t unchecked_ = 0;  // bytes that may be written before the bound is looked at again
};

}  // namespace flyball::spill
