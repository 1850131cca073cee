// One Vulkan device: what it is, its compute queue and all that is made on it. Every allocation, build,
// recording, submission and wait of the engine goes through here, so that each can be made to fail in tests
// and fails in one way: a typed error that names the call and the driver's code. Vulkan's own headers stay
// behind it (internal.hpp): they are heavy, and their exceptions end here.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/vulkan/facts.hpp"
#include "backends/vulkan/options.hpp"
#include "config/error.hpp"
#include "kernels/vulkan/push.h"

namespace flyball::vulkan {

struct DeviceState;  // internal.hpp

enum class Place : std::uint8_t {
  device,   // where the device reads fastest; mapped where that is the host's memory, too
  shared,   // mapped; the device's own memory where it can be both: the host writes, the device reads
  readback  // mapped and cached by the host: the device writes, the host reads
};

// A buffer. Move-only; released with its last owner, unless the device was abandoned.
class Memory {
 public:
  Memory() noexcept;
  Memory(Memory&&) noexcept;
  Memory& operator=(Memory&&) noexcept;
  ~Memory();
  explicit operator bool() const noexcept { return impl_ != nullptr; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  Address address() const noexcept { return address_; }
  // Null where the host cannot reach it. Coherent: what the host has written before a submission the device
  // sees, what a step has written the host sees after wait().
  std::byte* host() const noexcept { return host_; }

 private:
  friend class Device;
  friend class Commands;
  friend struct DeviceState;
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::uint64_t bytes_ = 0;
  Address address_ = 0;
  std::byte* host_ = nullptr;
};

// A kernel, compiled. Lives as long as the device; cheap to copy.
struct Pipeline {
  const void* handle = nullptr;  // internal.hpp
  std::uint32_t push_bytes = 0;
  explicit operator bool() const noexcept { return handle != nullptr; }
};

// constants[i] is specialization constant i; constants[0] the work-group's size: one of
// facts().subgroup_size invocations is one subgroup.
struct KernelSpec {
  std::string name;
  std::vector<std::uint32_t> constants;
  std::uint32_t push_bytes = 0;
};

// A buffer as kernels read it by texel, and may write it: a descriptor set. Lives as long as the buffer.
struct Texels {
  const void* set = nullptr;
  Address begin = 0;  // of the buffer: texels count from there
};

using Groups = std::array<std::uint32_t, 3>;

// A command buffer: recorded once, submitted as often as wanted. What goes wrong while recording is told by
// Device::finish_recording().
class Commands {
 public:
  Commands() noexcept;
  Commands(Commands&&) noexcept;
  Commands& operator=(Commands&&) noexcept;
  ~Commands();
  explicit operator bool() const noexcept { return impl_ != nullptr; }

  template <class Push>
  void dispatch(const Pipeline& pipeline, const Push& push, const Groups& groups) {
    dispatch(pipeline, std::as_bytes(std::span(&push, 1)), groups);
  }
  // sets: from 0 on, those of a kernel that reads by texel.
  template <class Push>
  void dispatch(const Pipeline& pipeline, const Push& push, const Groups& groups,
                std::span<const Texels> sets) {
    bind(pipeline, sets);
    dispatch(pipeline, push, groups);
  }
  // Groups: three uint32 in `from`, from byte `at` on.
  template <class Push>
  void dispatch_indirect(const Pipeline& pipeline, const Push& push, const Memory& from, std::uint64_t at) {
    dispatch_indirect(pipeline, std::as_bytes(std::span(&push, 1)), from, at);
  }
  void dispatch(const Pipeline& pipeline, std::span<const std::byte> push, const Groups& groups);
  void dispatch_indirect(const Pipeline& pipeline, std::span<const std::byte> push, const Memory& from,
                         std::uint64_t at);
  // What follows sees what came before: kernels and copies alike.
  void barrier();
  void copy(const Memory& from, std::uint64_t from_at, const Memory& to, std::uint64_t to_at,
            std::uint64_t bytes);

 private:
  friend class Device;
  friend struct DeviceState;
  void bind(const Pipeline& pipeline, std::span<const Texels> sets);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Every device that the loader knows, those that the engine cannot use included. model_unavailable: no
// loader, no driver.
Result<std::vector<DeviceFacts>> list_devices();

class Device {
 public:
  // model_unavailable: no loader, no device that fits the options, or one that lacks what the engine needs.
  static Result<std::shared_ptr<Device>> open(const DeviceOptions& options);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  const DeviceFacts& facts() const noexcept;
  std::uint64_t allocated() const noexcept;
  std::uint64_t free_bytes() const noexcept;

  // ---- memory ---------------------------------------------------------------------------------------------
  // insufficient_memory with what for, the bytes needed and the bytes free; device_lost.
  // What lies in it is anything. At least 16 bytes.
  Result<Memory> allocate(std::uint64_t bytes, std::string_view what, Place place);
  // The device reads the host's pages where they are: [bytes, rounded out to facts().import_alignment). They
  // outlive the memory; address() is that of the first byte of `bytes`. unsupported_value: it cannot.
  Result<Memory> import(std::span<const std::byte> bytes, std::string_view what);

  // The buffer with the byte at this address, as kernels read it by texel: 16 bytes, four 32-bit integers.
  // The first facts().texel_bytes of it; and facts().storage_bytes to write. insufficient_memory,
  // device_lost.
  Result<Texels> texels(Address address);

  // ---- kernels --------------------------------------------------------------------------------------------
  // model_unsupported with the kernel and why this device never builds it; insufficient_memory, device_lost.
  // One of a name and its constants is compiled once.
  // Those not yet known, on as many threads as the processor has: drivers compile on the caller's.
  Result<void> build(std::span<const KernelSpec> specs);
  Result<Pipeline> pipeline(std::string_view name, std::span<const std::uint32_t> constants,
                            std::uint32_t push_bytes);
  // The driver's pipeline cache: what it was given, and what it has become. load: before the first pipeline;
  // bytes that the driver does not know are ignored by it.
  void load_pipeline_cache(std::span<const std::byte> bytes);
  std::vector<std::byte> pipeline_cache();
  std::uint32_t pipelines() const noexcept;

  // ---- work, in order: device_lost ------------------------------------------------------------------------
  Result<Commands> start_recording();
  Result<void> finish_recording(Commands& commands);
  // Returns at once. The commands and all they name outlive it until wait().
  Result<void> submit(const Commands& commands);
  // Until all that was submitted is done, but for the last `but` submissions; at most until the fence
  // deadline, or `times` as long: device_lost.
  Result<void> wait(std::uint32_t but = 0, std::uint32_t times = 1);
  // Something was submitted that nobody has seen done.
  bool busy() const noexcept;
  // Records, submits and waits: loading and tests.
  template <class Record>
  Result<void> run(Record&& record) {
    auto commands = start_recording();
    if (!commands) return pass(commands);
    record(*commands);
    if (auto ok = finish_recording(*commands); !ok) return pass(ok);
    if (auto ok = submit(*commands); !ok) return pass(ok);
    auto ok = wait();
    if (!ok) at_rest();
    return ok;
  }
  // After a failure, or at the end: waits for what was submitted, at most until the settle deadline, once.
  // False: the device may still touch the host's memory, which must not be freed; and from now on none of its
  // objects is released, because that might wait for it without end.
  bool at_rest() noexcept;

 private:
  explicit Device(std::shared_ptr<DeviceState> state);
  std::shared_ptr<DeviceState> state_;
};

}  // namespace flyball::vulkan
