// OpenCL's objects with owners, counted: when an engine has gone, or failed half-way, none may be left.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "backends/opencl/api.hpp"

namespace flyball::opencl {

// What lives on a device through one engine. Outlives every handle.
struct Objects {
  std::shared_ptr<const Api> api;
  std::atomic<std::int64_t> live{0};
  std::atomic<std::uint64_t> bytes{0};  // of device memory
  // A wait for the device went wrong: to release anything might block on it, or free what it still uses, so
  // that is put off until Device::settle() knows.
  std::atomic<bool> in_doubt{false};
  std::vector<std::function<void()>> put_off;
  // The device did not come to rest: nothing is released any more.
  std::atomic<bool> abandoned{false};

  void release(cl_context o) const { api->clReleaseContext(o); }
  void release(cl_command_queue o) const { api->clReleaseCommandQueue(o); }
  void release(cl_mem o) const { api->clReleaseMemObject(o); }
  void release(cl_program o) const { api->clReleaseProgram(o); }
  void release(cl_kernel o) const { api->clReleaseKernel(o); }
  void release(cl_event o) const { api->clReleaseEvent(o); }

  // Ends a handle's ownership.
  template <class T>
  void give_back(T o) {
    if (abandoned) return;
    if (in_doubt) return put_off.push_back([this, o] { end(o); });
    end(o);
  }
  void settled(bool resting) {
    abandoned = !resting;
    in_doubt = false;
    for (const auto& release : std::exchange(put_off, {}))
      if (resting) release();
  }

 private:
  template <class T>
  void end(T o) {
    release(o);
    --live;
  }
};

// Owns one reference. Move-only; empty by default.
template <class T>
class Handle {
 public:
  Handle() = default;
  Handle(std::shared_ptr<Objects> objects, T raw) : objects_(std::move(objects)), raw_(raw) {
    if (raw_ != nullptr) ++objects_->live;
  }
  Handle(Handle&& other) noexcept
      : objects_(std::move(other.objects_)), raw_(std::exchange(other.raw_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(objects_, other.objects_);
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Handle() {
    if (raw_ != nullptr) objects_->give_back(raw_);
  }
  T get() const noexcept { return raw_; }
  explicit operator bool() const noexcept { return raw_ != nullptr; }

 private:
  std::shared_ptr<Objects> objects_;
  T raw_ = nullptr;
};

// Bytes in the books for as long as it lives. Move-only.
class Counted {
 public:
  Counted() = default;
  Counted(std::shared_ptr<Objects> objects, std::uint64_t bytes) : objects_(std::move(objects)), bytes_(bytes) {
    objects_->bytes += bytes_;
  }
  Counted(Counted&& other) noexcept
      : objects_(std::move(other.objects_)), bytes_(std::exchange(other.bytes_, 0)) {}
  Counted& operator=(Counted&& other) noexcept {
    std::swap(objects_, other.objects_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Counted() {
    if (objects_) objects_->bytes -= bytes_;
  }

 private:
  std::shared_ptr<Objects> objects_;
  std::uint64_t bytes_ = 0;
};

}  // namespace flyball::opencl
