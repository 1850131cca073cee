// One OpenCL device: what it is, its context and its in-order queue. Every allocation, build, enqueue and
// wait of the engine goes through here, so that each can be made to fail in tests and fails in one way: a
// typed error that names the call and the driver's code.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/opencl/found_device.hpp"
#include "backends/opencl/objects.hpp"
#include "backends/opencl/options.hpp"
#include "config/error.hpp"

namespace flyball::opencl {

struct Memory {
  Handle<cl_mem> handle;
  std::uint64_t bytes = 0;
  Counted counted;  // of what the device itself holds
  explicit operator bool() const noexcept { return static_cast<bool>(handle); }
};

struct Kernel {
  Handle<cl_kernel> kernel;
  std::string name;
};

// Work-items in all and in a group. Precondition: local divides global.
struct Grid {
  std::array<std::size_t, 3> global{1, 1, 1}, local{1, 1, 1};
};

class Device {
 public:
  // model_unavailable: no loader, no device that fits the options. A daemon has probed first, by the same
  // calls in a process of its own: a driver that crashes at a dispatch crashes there.
  static Result<std::shared_ptr<Device>> open(const DeviceOptions& options);
  // As choose_found() gives them. Each has a context of its own: what is lost with one leaves the others, and
  // memory lies on the device it was asked of.
  static Result<std::vector<std::shared_ptr<Device>>> open_all(std::span<const DeviceOptions> options);
  static Result<std::shared_ptr<Device>> open(std::shared_ptr<const Api> api, FoundDevice found,
                                              const DeviceOptions& options);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  const DeviceFacts& facts() const noexcept { return facts_; }
  std::uint64_t allocated() const noexcept { return objects_->bytes; }
  std::uint64_t free_bytes() const noexcept { return limit_ > allocated() ? limit_ - allocated() : 0; }

  // ---- memory ---------------------------------------------------------------------------------------------
  // insufficient_memory with what for, the bytes needed and the bytes free; device_lost.
  // Zeroed, and waited for: many drivers find out at the first use that there is no memory.
  Result<Memory> allocate(std::uint64_t bytes, std::string_view what);
  // Memory the host can write into without a copy by the driver.
  struct Pinned {
    Memory buffer;
    std::byte* host = nullptr;  // valid until unpin()
  };
  Result<Pinned> allocate_pinned(std::uint64_t bytes, std::string_view what);
  // Precondition: no write from it is under way, or at_rest() said no.
  void unpin(Pinned pinned) noexcept;
  // The device reads these bytes where they are. Only on a unified device; they outlive the buffer.
  Result<Memory> import(std::span<const std::byte> bytes, std::string_view what);

  // ---- programs -------------------------------------------------------------------------------------------
  // model_unsupported where no further try on this device helps (what does not compile, or needs more than
  // the device has), else model_unavailable; with the kernel file, the device and the log's first error.
  Result<Handle<cl_program>> compile(std::string_view name, std::span<const std::string_view> sources,
                                     const std::string& options);
  // Empty: the driver does not take this binary (any more).
  Handle<cl_program> from_binary(std::span<const std::byte> binary, const std::string& options);
  std::vector<std::byte> binary_of(const Handle<cl_program>& program);  // empty: the driver gives none
  Result<Kernel> kernel(const Handle<cl_program>& program, const std::string& name);

  // ---- the queue, in order: device_lost -------------------------------------------------------------------
  template <class... Args>
  Result<void> run(const Kernel& kernel, const Grid& grid, const Args&... args) {
    cl_uint index = 0;
    cl_int status = CL_SUCCESS;
    ((status = status == CL_SUCCESS ? set_argument(kernel, index++, args) : status), ...);
    if (status != CL_SUCCESS) return failed("clSetKernelArg for " + kernel.name, status);
    return enqueue(kernel, grid);
  }
  // The host's bytes may change once this has returned.
  Result<void> write(const Memory& to, std::uint64_t at, std::span<const std::byte> from);
  // The host's bytes must stay until the event or a fence; after a failure until at_rest() said yes.
  Result<Handle<cl_event>> write_later(const Memory& to, std::uint64_t at, std::span<const std::byte> from);
  Result<void> copy(const Memory& from, std::uint64_t from_at, const Memory& to, std::uint64_t to_at,
                    std::uint64_t bytes);
  // Blocks until all before it is done, at most until the fence deadline: device_lost. Then the host's bytes
  // may still be written until at_rest() said yes.
  Result<void> read(const Memory& from, std::uint64_t at, std::span<std::byte> to);
  Result<void> wait(const Handle<cl_event>& event);
  // Reached when all that is enqueued is done.
  Result<Handle<cl_event>> mark();
  // Waits for all that is enqueued, as for an event.
  Result<void> finish();
  // Hands what is enqueued to the driver.
  Result<void> flush();
  // Whether something was enqueued that nobody has waited for, successfully.
  bool busy() const noexcept { return busy_; }
  // If it is busy, waits for what was enqueued before, at most until the settle deadline, once. False: the device
  // may still touch the host's memory, which must not be freed; and from now on none of its objects is released,
  // because that might wait for it without end. After a wait that went wrong none is until this was asked.
  bool at_rest() noexcept { return !busy_ || settle(); }
  bool settle() noexcept;  // the same of any device

 private:
  Device() = default;
  int intercept(Call call) const { return options_.interceptor ? options_.interceptor(call) : CL_SUCCESS; }
  // Blocks until the event; nullopt: not in time.
  std::optional<cl_int> outcome_of(cl_event event, std::chrono::microseconds patience) const;
  // By the driver's call, and by asking it again and again.
  std::optional<cl_int> call_of(cl_event event, std::chrono::microseconds patience) const;
  std::optional<cl_int> answer_of(cl_event event, std::chrono::microseconds patience) const;
  // The same within the fence deadline, all before it handed to the driver.
  Result<cl_int> outcome_in_time(const Handle<cl_event>& event) const;
  void collect_times();
  // The same of what was enqueued last, and so of all.
  Result<void> wait_for_all(const Handle<cl_event>& last);
  Result<void> check_needs(const Kernel& kernel) const;
  Result<void> enqueue(const Kernel& kernel, const Grid& grid);
  Result<Memory> create(std::uint64_t bytes, cl_mem_flags flags, void* host, std::string_view what);
  std::unexpected<Error> failed(const std::string& call, cl_int status) const;
  // Of an allocation, or its first use: whether memory ran out or the device failed.
  std::unexpected<Error> not_allocated(const std::string& call, cl_int status, std::uint64_t bytes,
                                       std::string_view what) const;
  cl_int set_argument(const Kernel& k, cl_uint i, const Memory& buffer) const {
    const cl_mem memory = buffer.handle.get();
    return objects_->api->clSetKernelArg(k.kernel.get(), i, sizeof memory, &memory);
  }
  template <class T>
  requires std::is_arithmetic_v<T> cl_int set_argument(const Kernel& k, cl_uint i, const T& value)
  const { return objects_->api->clSetKernelArg(k.kernel.get(), i, sizeof value, &value); }

  DeviceOptions options_;
  DeviceFacts facts_;
  std::shared_ptr<Objects> objects_;
  cl_device_id device_ = nullptr;
  Handle<cl_context> context_;
  Handle<cl_command_queue> queue_;
  std::uint64_t limit_ = 0;
  bool busy_ = false;
  struct Timed {
    std::string kernel;
    Handle<cl_event> event;
  };
  std::deque<Timed> timed_;  // enqueued since the last wait for all, where kernels are timed
};

}  // namespace flyball::opencl
