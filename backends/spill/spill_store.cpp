#include "backends/spill/spill_store.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>

namespace flyball::spill {
namespace {

constexpr const char* kSuffix = ".kv";
// Segments that the bound is made of: what goes at once when room is needed, and may be cold in part.
constexpr std::uint64_t kSegmentsOfBound = 16;
// How often within a segment the bound is looked at: others write, too.
constexpr std::uint64_t kChecksOfSegment = 8;
// Of tiny blocks: what is kept of each in memory is bounded, too.
constexpr std::uint64_t kMostRecords = 4096;
constexpr std::size_t kMostSegments = 256;
// Blocks that are read from the disk beside the one that is waited for.
constexpr std::uint64_t kReadAhead = 4;
// Of the free space, what has been spilled included.
constexpr std::uint64_t kShareOfDisk = 4;

std::string why(int error) {
  return std::generic_category().message(error);
}

// A space's segments begin so.
std::string prefix_of(const kv::ChainKey& space) {
  std::string name;
  for (std::size_t i = 0; i < 8; ++i) {
    const auto byte = static_cast<unsigned>(space.bytes[i]);
    name += "0123456789abcdef"[byte >> 4U];
    name += "0123456789abcdef"[byte & 15U];
  }
  return name + "-";
}

// 0, or what went wrong.
int read_all(int fd, std::uint64_t at, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t n = ::pread(fd, to.data(), to.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    at += static_cast<std::uint64_t>(n);
    to = to.subspan(static_cast<std::size_t>(n));
  }
  return 0;
}

int write_all(int fd, std::uint64_t at, std::array<std::span<const std::byte>, 2> parts) {
  while (!parts[0].empty() || !parts[1].empty()) {
    std::array<iovec, 2> vectors{};
    for (std::size_t i = 0; i < 2; ++i)
      vectors[i] = {const_cast<std::byte*>(parts[i].data()), parts[i].size()};
    const ssize_t n = ::pwritev(fd, vectors.data(), 2, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    at += static_cast<std::uint64_t>(n);
    auto written = static_cast<std::size_t>(n);
    for (auto& part : parts) {
      const std::size_t of_this = std::min(written, part.size());
      part = part.subspan(of_this);
      written -= of_this;
    }
  }
  return 0;
}

// Whether a file in our directory is ours, whoever chose the directory: prefix_of() and what start_segment()
// appends.
bool is_segment_name(std::string_view name) {
  const auto take = [&](std::string_view digits, std::size_t least) {
    const std::size_t n = std::min(name.find_first_not_of(digits), name.size());
    name.remove_prefix(n);
    return n >= least;
  };
  const auto dash = [&] {
    const bool there = name.starts_with('-');
    if (there) name.remove_prefix(1);
    return there;
  };
  constexpr std::string_view kHex = "0123456789abcdef", kDecimal = kHex.substr(0, 10);
  return take(kHex, 16) && dash() && take(kHex, 9) && dash() && take(kDecimal, 1) && name == kSuffix;
}

// nullopt: errno says why.
std::optional<std::vector<std::string>> segment_names(int directory) {
  Descriptor again(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!again) return std::nullopt;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::fdopendir(again.get()), &::closedir);
  if (!listing) return std::nullopt;
  std::ignore = again.release();  // closedir's
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing.get()))
    if (is_segment_name(entry->d_name)) names.emplace_back(entry->d_name);
  return names;
}

// A segment that cannot be read counts as nobody's: nobody finds its blocks either.
bool holds_stranger(int file, std::span<const std::string> owners, const std::stop_token& stop) {
  std::array<std::byte, kSegmentHeaderBytes> bytes{};
  if (read_all(file, 0, bytes) != 0) return false;
  const auto header = decode_segment(bytes);
  if (!header) return false;
  std::set<kv::ChainKey> roots;
  for (const std::string& owner : owners) roots.insert(kv::root_key(header->space, owner));
  std::uint64_t at = kSegmentHeaderBytes;
  for (std::uint64_t i = 0; i < kMostRecords && !stop.stop_requested(); ++i) {
    std::array<std::byte, kRecordHeaderBytes> record{};
    if (read_all(file, at, record) != 0) return false;  // the end
    if (const auto found = decode_record(record); found && !roots.contains(found->root)) return true;
    if (__builtin_add_overflow(at, kRecordHeaderBytes + header->block_bytes, &at)) return false;
  }
  return false;
}

}  // namespace

Result<std::size_t> remove_all_but(const std::filesystem::path& directory,
                                   std::span<const std::string> owners, const std::stop_token& stop) {
  std::error_code error;
  if (!std::filesystem::exists(directory, error) && !error) return 0;
  auto opened = device::CacheDirectory::open(directory, device::CacheDirectory::Trust::owner);
  if (!opened) return pass(opened);
  const auto names = segment_names(opened->fd());
  if (!names)
    return fail(ErrorCode::io_error, "KV cannot be listed: " + why(errno) + ".", {}, directory.string());
  std::size_t removed = 0;
  for (const std::string& name : *names) {
    if (stop.stop_requested()) break;
    const Descriptor file(
        ::openat(opened->fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat s {};
    if (!file || ::fstat(file.get(), &s) != 0 || !S_ISREG(s.st_mode)) continue;
    if (holds_stranger(file.get(), owners, stop) && ::unlinkat(opened->fd(), name.c_str(), 0) == 0) ++removed;
  }
  return removed;
}

MappedBlock::~MappedBlock() {
  if (!mapping_.empty()) ::munmap(const_cast<std::byte*>(mapping_.data()), mapping_.size());
}

std::size_t SpillStore::KeyHash::operator()(const kv::ChainKey& key) const noexcept {
  std::size_t hash = 0;
  std::memcpy(&hash, key.bytes.data(), sizeof hash);
  return hash;
}

SpillStore::SpillStore(StoreOptions options, device::CacheDirectory directory, const kv::ChainKey& space,
                       std::uint64_t block_bytes)
    : options_(std::move(options)),
      directory_(std::move(directory)),
      space_(space),
      block_bytes_(block_bytes),
      segment_bytes_(
          kSegmentHeaderBytes +
          std::clamp<std::uint64_t>(options_.max_bytes / kSegmentsOfBound / stride(), 1, kMostRecords) *
              stride()),
      check_bytes_(std::max(segment_bytes_ / kChecksOfSegment, stride())) {}

Result<std::unique_ptr<SpillStore>> SpillStore::open(StoreOptions options, const kv::ChainKey& space,
                                                     std::uint64_t block_bytes) {
  constexpr std::uint64_t kLeastBlocks = 4;
  // As large as a whole address space: refused before anything is multiplied.
  if (block_bytes == 0 || block_bytes > options.max_bytes / (2 * kLeastBlocks))
    return fail(ErrorCode::io_error,
                "kv_spill.max_bytes is " + std::to_string(options.max_bytes) +
                    ", and a block of this model's KV takes " + std::to_string(block_bytes) + " bytes.",
                "kv_spill.max_bytes", options.directory.string());
  auto directory = device::CacheDirectory::make(options.directory, device::CacheDirectory::Trust::owner);
  if (!directory) return pass(directory);
  std::unique_ptr<SpillStore> store(
      new SpillStore(std::move(options), std::move(*directory), space, block_bytes));
  store->scan();
  return store;
}

std::unexpected<Error> SpillStore::failure(const char* what, int error) const {
  return fail(ErrorCode::io_error, std::string("KV cannot be ") + what + ": " + why(error) + ".", {},
              options_.directory.string());
}

// ---- what is there ----------------------------------------------------------------------------------------

Result<std::vector<SpillStore::Listed>> SpillStore::list() const {
  const auto names = segment_names(directory_.fd());
  if (!names) return failure("listed", errno);
  std::vector<Listed> all;
  for (const std::string& name : *names) {
    struct stat s {};
    if (::fstatat(directory_.fd(), name.c_str(), &s, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(s.st_mode))
      continue;
    all.push_back({name, static_cast<std::uint64_t>(s.st_size), {s.st_mtim.tv_sec, s.st_mtim.tv_nsec}});
  }
  // Of the same moment, by name: where file times are coarse, that is the order in which each engine made its
  // own.
  std::ranges::sort(all, {}, [](const Listed& l) { return std::tie(l.used, l.name); });
  return all;
}

// What cannot be read now is as if it were not there.
void SpillStore::scan() {
  const auto all = list();
  if (!all) return;
  const std::string prefix = prefix_of(space_);
  for (const Listed& listed : *all) {
    if (!listed.name.starts_with(prefix)) continue;
    const Descriptor file(
        ::openat(directory_.fd(), listed.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat s {};
    if (!file || ::fstat(file.get(), &s) != 0 || !S_ISREG(s.st_mode) || s.st_uid != ::geteuid()) continue;
    std::array<std::byte, kSegmentHeaderBytes> bytes{};
    if (read_all(file.get(), 0, bytes) != 0) continue;
    const auto header = decode_segment(bytes);
    if (!header || header->space != space_ || header->block_bytes != block_bytes_) continue;
    auto segment = std::make_shared<Segment>();
    segment->name = listed.name;
    segments_.push_back(segment);
    read_records(segment, file.get(), static_cast<std::uint64_t>(s.st_size));
  }
}

// A record's place is known by its number, so that one that was changed costs itself alone, and half of one
// at the end is none.
void SpillStore::read_records(const std::shared_ptr<Segment>& segment, int file, std::uint64_t size) {
  std::uint64_t at = kSegmentHeaderBytes;
  for (std::uint64_t i = 0; i < kMostRecords && at + stride() <= size; ++i, at += stride()) {
    std::array<std::byte, kRecordHeaderBytes> bytes{};
    if (read_all(file, at, bytes) != 0) return;
    if (const auto header = decode_record(bytes)) insert(*header, segment, at + kRecordHeaderBytes);
  }
}

void SpillStore::insert(const RecordHeader& header, const std::shared_ptr<Segment>& segment,
                        std::uint64_t at) {
  const std::lock_guard lock(mutex_);
  if (segment->gone) return;
  index_.insert_or_assign(header.key, Place{segment, at, header.payload});
  segment->roots.insert(header.root);
}

bool SpillStore::contains(const kv::ChainKey& key) const {
  const std::lock_guard lock(mutex_);
  return index_.contains(key);
}

std::size_t SpillStore::blocks() const {
  const std::lock_guard lock(mutex_);
  return index_.size();
}

Result<MappedBlock> SpillStore::map(const kv::ChainKey& key) {
  Place place;
  {
    const std::lock_guard lock(mutex_);
    const auto it = index_.find(key);
    if (it == index_.end()) return fail(ErrorCode::not_found, "This block is not kept any more.");
    place = it->second;
  }
  auto block = map_at(place);
  if (!block) {
    const std::lock_guard lock(mutex_);
    if (const auto it = index_.find(key); it != index_.end() && it->second.segment == place.segment)
      index_.erase(it);
  }
  return block;
}

// Opened anew for each: a file that is kept open keeps its room on the disk when it is removed.
Result<MappedBlock> SpillStore::map_at(const Place& place) const {
  const auto changed = [&](const char* what) {
    return fail(ErrorCode::not_found, what, {}, (options_.directory / place.segment->name).string());
  };
  if (const int error = intercept(Call::map)) return failure("read", error);
  const Descriptor file(
      ::openat(directory_.fd(), place.segment->name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file && errno == ENOENT) return changed("Spilled KV is not kept any more.");
  struct stat s {};
  if (!file || ::fstat(file.get(), &s) != 0) return failure("read", errno);
  if (static_cast<std::uint64_t>(s.st_size) < place.at + block_bytes_)
    return changed("Spilled KV was cut off.");
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = place.at / page * page;
  const std::uint64_t bytes = place.at + block_bytes_ - begin;
  // Asked for at once, with what follows it in the file: most often the next ones to be mapped.
  ::posix_fadvise(file.get(), static_cast<off_t>(begin), static_cast<off_t>(kReadAhead * stride()),
                  POSIX_FADV_WILLNEED);
  void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), static_cast<off_t>(begin));
  if (at == MAP_FAILED) return failure("read", errno);
  const std::span mapping(static_cast<const std::byte*>(at), bytes);
  MappedBlock block(mapping, mapping.last(block_bytes_));
  // Here a disk that does not answer is an error; at a first look at the bytes it would be a signal.
  if (::madvise(at, bytes, MADV_POPULATE_READ) != 0) return failure("read", errno);
  if (checksum(block.bytes()) != place.payload) return changed("Spilled KV is not what was written.");
  ::futimens(file.get(), nullptr);  // it was of use: others go before it
  return block;
}

void SpillStore::forget(const kv::ChainKey& root) {
  const std::lock_guard lock(mutex_);
  for (const auto& segment : std::vector(segments_))
    // What is being written now may be this owner's.
    if (segment->roots.contains(root) || segment->written) remove(segment);
}

void SpillStore::remove(const std::shared_ptr<Segment>& segment) {
  ::unlinkat(directory_.fd(), segment->name.c_str(), 0);
  drop(segment);
}

void SpillStore::drop(const std::shared_ptr<Segment>& segment) {
  segment->gone = true;
  std::erase_if(index_, [&](const auto& entry) { return entry.second.segment == segment; });
  std::erase(segments_, segment);
}

// ---- what is added ----------------------------------------------------------------------------------------

Result<void> SpillStore::append(const kv::ChainKey& key, const kv::ChainKey& root,
                                std::span<const std::byte> bytes) {
  const RecordHeader header{key, root, checksum(bytes)};
  if (active_is_full()) {
    close_active();
    if (auto ok = start_segment(); !ok) return pass(ok);
  } else if (unchecked_ < stride()) {
    if (auto ok = make_room(check_bytes_); !ok) return pass(ok);
  }
  return write(*active_, header, bytes);
}

bool SpillStore::active_is_full() const {
  if (!active_ || active_->size + stride() > segment_bytes_) return true;
  const std::lock_guard lock(mutex_);
  return active_->gone;
}

void SpillStore::close_active() {
  active_file_ = {};
  if (!active_) return;
  const std::lock_guard lock(mutex_);
  std::exchange(active_, nullptr)->written = false;
}

Result<void> SpillStore::write(Segment& to, const RecordHeader& header, std::span<const std::byte> bytes) {
  int error = intercept(Call::write);
  const std::uint64_t at = to.size;
  const auto head = encode(header);
  if (error == 0) error = write_all(active_file_.get(), at, {head, bytes});
  if (error != 0) {
    // Where even this fails the record is half there, which is what its checksum is for.
    [[maybe_unused]] const int ignored = ::ftruncate(active_file_.get(), static_cast<off_t>(at));
    return failure("spilled", error);
  }
  to.size = at + stride();
  unchecked_ -= std::min(unchecked_, stride());
  insert(header, active_, at + kRecordHeaderBytes);
  return {};
}

Result<void> SpillStore::start_segment() {
  if (auto ok = make_room(check_bytes_ + kSegmentHeaderBytes); !ok) return pass(ok);
  if (const int error = intercept(Call::create)) return failure("spilled", error);
  auto segment = std::make_shared<Segment>();
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  char unique[64];
  std::snprintf(unique, sizeof unique, "%llx%08lx-%ld", static_cast<unsigned long long>(now.tv_sec),
                static_cast<unsigned long>(now.tv_nsec), static_cast<long>(::getpid()));
  segment->name = prefix_of(space_) + unique + kSuffix;
  Descriptor file(::openat(directory_.fd(), segment->name.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return failure("spilled", errno);
  const auto header = encode(SegmentHeader{space_, block_bytes_});
  if (const int error = write_all(file.get(), 0, {header, {}})) {
    ::unlinkat(directory_.fd(), segment->name.c_str(), 0);
    return failure("spilled", error);
  }
  segment->size = kSegmentHeaderBytes;
  segment->written = true;
  active_file_ = std::move(file);
  const std::lock_guard lock(mutex_);
  segments_.push_back(segment);
  active_ = std::move(segment);
  return {};
}

// So many bytes may be written after it. One engine at a time: two must not count on the same room.
Result<void> SpillStore::make_room(std::uint64_t bytes) {
  const Descriptor lock_file(
      ::openat(directory_.fd(), kChangeLock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!lock_file) return failure("spilled", errno);
  while (::flock(lock_file.get(), LOCK_EX) != 0)
    if (errno != EINTR) return failure("spilled", errno);
  auto all = list();
  if (!all) return pass(all);
  struct statvfs disk {};
  if (::fstatvfs(directory_.fd(), &disk) != 0) return failure("spilled", errno);
  const std::uint64_t free_bytes = std::uint64_t{disk.f_bavail} * disk.f_frsize;

  const std::lock_guard lock(mutex_);
  std::uint64_t total = 0;
  std::set<std::string> names;
  for (const Listed& listed : *all) {
    total += listed.size;
    names.insert(listed.name);
  }
  for (const auto& segment : std::vector(segments_))  // another engine took them away
    if (!names.contains(segment->name)) drop(segment);
  const std::uint64_t bound = std::min(options_.max_bytes, (total + free_bytes) / kShareOfDisk);
  std::size_t n = all->size();
  for (const Listed& listed : *all) {
    if (total + bytes <= bound && n < kMostSegments) break;
    if (active_ && listed.name == active_->name) continue;
    const auto ours = std::ranges::find(segments_, listed.name, [](const auto& s) { return s->name; });
    if (ours != segments_.end()) {
      remove(std::shared_ptr(*ours));
    } else {
      ::unlinkat(directory_.fd(), listed.name.c_str(), 0);
    }
    total -= listed.size;
    --n;
  }
  if (total + bytes > bound)
    return fail(ErrorCode::io_error,
                "KV cannot be spilled: " + std::to_string(bytes) + " bytes are wanted, and " +
                    std::to_string(bound > total ? bound - total : 0) + " may be taken of the disk's " +
                    std::to_string(free_bytes) + " free ones.",
                {}, options_.directory.string());
  unchecked_ = bytes;
  return {};
}

}  // namespace flyball::spill
