#include "backends/opencl/upload.hpp"

#include <algorithm>
#include <cstring>

namespace flyball::opencl {
namespace {

// Long enough that a transfer's fixed cost vanishes, short enough that reading and sending overlap.
constexpr std::uint64_t kSlotBytes = 8ULL << 20;

}  // namespace

Result<std::unique_ptr<Uploader>> Uploader::make(Device& device, std::uint64_t total_bytes,
                                                 graph::LoadProgress progress) {
  std::unique_ptr<Uploader> uploader(new Uploader(device));
  uploader->total_ = total_bytes;
  uploader->progress_ = std::move(progress);
  for (Slot& slot : uploader->slots_) {
    auto pinned = device.allocate_pinned(kSlotBytes, "the staging ring");
    if (!pinned) return pass(pinned);
    slot.pinned = std::move(*pinned);
  }
  return uploader;
}

Uploader::~Uploader() {
  // A copy reads the mapping, not the buffer: OpenCL itself does not keep that alive.
  device_.at_rest();  // if not, unpin() leaves the mapping
  for (Slot& slot : slots_) device_.unpin(std::move(slot.pinned));
}

Result<void> Uploader::put(const Memory& to, std::uint64_t at, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    Slot& slot = slots_[next_];
    next_ = (next_ + 1) % slots_.size();
    if (slot.busy) {
      if (auto ok = device_.wait(slot.busy); !ok) return pass(ok);
      slot.busy = {};
    }
    const std::size_t n = std::min<std::size_t>(bytes.size(), kSlotBytes);
    std::memcpy(slot.pinned.host, bytes.data(), n);  // reads the file
    auto sent = device_.write_later(to, at, {slot.pinned.host, n});
    if (!sent) return pass(sent);
    slot.busy = std::move(*sent);
    if (auto ok = device_.flush(); !ok) return pass(ok);
    bytes = bytes.subspan(n);
    at += n;
    done_ += n;
    if (progress_) progress_(done_, total_);
  }
  return {};
}

Result<void> Uploader::finish() {
  if (auto ok = device_.finish(); !ok) return pass(ok);
  for (Slot& slot : slots_) slot.busy = {};
  return {};
}

}  // namespace flyball::opencl
