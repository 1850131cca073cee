// Weights on their way to a device with memory of its own: a ring of pinned buffers, so that the file is read
// into one while the device takes the others.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "backends/opencl/device.hpp"
#include "backends/opencl/options.hpp"

namespace flyball::opencl {

class Uploader {
 public:
  // insufficient_memory, device_lost. The device outlives it.
  static Result<std::unique_ptr<Uploader>> make(Device& device, std::uint64_t total_bytes,
                                                graph::LoadProgress progress);
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;
  // Waits for copies that are under way, as Device::at_rest() does.
  ~Uploader();
  // The bytes may go once this has returned. Their arrival is certain after finish().
  Result<void> put(const Memory& to, std::uint64_t at, std::span<const std::byte> bytes);
  Result<void> finish();

 private:
  explicit Uploader(Device& device) : device_(device) {}
  struct Slot {
    Device::Pinned pinned;
    Handle<cl_event> busy;  // the device still reads it
  };
  // Three: one being filled, one on the way, one waiting.
  std::array<Slot, 3> slots_;
  std::size_t next_ = 0;
  Device& device_;
  std::uint64_t done_ = 0, total_ = 0;
  graph::LoadProgress progress_;
};

}  // namespace flyball::opencl
