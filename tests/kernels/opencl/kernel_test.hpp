// A device, the engine's programs, and buffers that end in canaries, for tests of single kernels.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/opencl/programs.hpp"
#include "tests/backends/opencl/support.hpp"

namespace flyball::opencl {

inline constexpr std::size_t kMargin = 64;  // canaries behind each buffer
inline constexpr std::uint8_t kCanary = 0xA7;

class KernelTest : public flyball::test::OpenClTest {
 protected:
  void SetUp() override {
    OpenClTest::SetUp();
    if (IsSkipped()) return;
    DeviceOptions options = flyball::test::any_device();
    options.fence_deadline = std::chrono::minutes(10);  // PoCL compiles at the first launch
    device_ = Device::open(options).value();
    programs_ = std::make_unique<Programs>(device_, flyball::test::shared_programs());
  }
  // The values, then canaries.
  template <class T>
  Memory put(const std::vector<T>& values) {
    std::vector<std::uint8_t> bytes(values.size() * sizeof(T) + kMargin, kCanary);
    std::memcpy(bytes.data(), values.data(), values.size() * sizeof(T));
    Memory memory = device_->allocate(bytes.size(), "a test").value();
    EXPECT_TRUE(device_->write(memory, 0, std::as_bytes(std::span(bytes))));
    return memory;
  }
  template <class T>
  std::vector<T> get(const Memory& memory) {
    std::vector<std::uint8_t> bytes(memory.bytes);
    EXPECT_TRUE(device_->read(memory, 0, std::as_writable_bytes(std::span(bytes))));
    for (std::size_t i = bytes.size() - kMargin; i < bytes.size(); ++i)
      EXPECT_EQ(bytes[i], kCanary) << "canary " << i;
    std::vector<T> values((bytes.size() - kMargin) / sizeof(T));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
  }
  Kernel kernel(const std::string& name, const std::string& options,
                std::vector<std::string_view> files = {}) {
    if (files.empty()) files = {name};
    auto made = programs_->kernel(name, files, options);
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    return std::move(*made);
  }
  template <class... Args>
  void run(const Kernel& kernel, Grid grid, const Args&... args) {
    const auto ok = device_->run(kernel, grid, args...);
    EXPECT_TRUE(ok) << (ok ? "" : ok.error().message);
  }
  static Grid grid(std::array<std::size_t, 3> global, std::size_t local = 1) {
    return {global, {local, 1, 1}};
  }
  static Grid rows_of(std::size_t cols, std::size_t rows) {
    return grid({(cols / 8 + 32) / 32 * 32, rows, 1}, 32);
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Programs> programs_;
};

}  // namespace flyball::opencl
