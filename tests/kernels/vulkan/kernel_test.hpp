// A Vulkan device for tests of single kernels: buffers that begin and end in canaries, pipelines as the
// engine makes them, the validation layer listening.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/vulkan/device.hpp"
#include "backends/vulkan/matmul_plan.hpp"
#include "kernels/vulkan/push.h"

namespace flyball::vulkan::test {

inline constexpr std::uint8_t kCanary = 0xA7;
inline constexpr std::size_t kMargin = 64;  // canaries before and after

class KernelTest : public testing::Test {
 protected:
  void SetUp() override {
    static const std::shared_ptr<Device> shared = [] {  // for all tests: compiling is what costs
      DeviceOptions options;
      options.allow_processor = true;
      options.validate = true;
      options.fence_deadline = std::chrono::minutes(10);  // drivers compile at the first launch
      options.on_validation = [](const std::string& said) { ADD_FAILURE() << "validation: " << said; };
      auto opened = Device::open(options);
      return opened ? *opened : nullptr;
    }();
    device_ = shared;
    if (!device_) GTEST_SKIP() << "no Vulkan device";
  }

  // n values from `at` bytes behind an address that is a multiple of 64.
  struct Buffer {
    Memory memory;
    std::size_t at = 0, bytes = 0;
    Address address() const { return memory.address() + kMargin + at; }
  };
  Buffer put_bytes(const void* bytes, std::size_t n, std::size_t at = 0) {
    Buffer out{.memory = device_->allocate(n + at + 2 * kMargin, "a test", Place::shared).value(),
               .at = at,
               .bytes = n};
    std::memset(out.memory.host(), kCanary, n + at + 2 * kMargin);
    std::memcpy(out.memory.host() + kMargin + at, bytes, n);
    return out;
  }
  template <class T>
  Buffer put(const std::vector<T>& values) {
    return put_bytes(values.data(), values.size() * sizeof(T));
  }
  template <class T>
  std::vector<T> get(const Buffer& buffer) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(buffer.memory.host());
    const std::size_t before = kMargin + buffer.at;
    for (std::size_t i = 0; i < before; ++i) EXPECT_EQ(bytes[i], kCanary) << "canary " << i << " before";
    for (std::size_t i = 0; i < kMargin; ++i)
      EXPECT_EQ(bytes[before + buffer.bytes + i], kCanary) << "canary " << i << " behind";
    std::vector<T> values(buffer.bytes / sizeof(T));
    std::memcpy(values.data(), bytes + before, buffer.bytes);
    return values;
  }
  template <class Push>
  void run(const std::string& kernel, const std::vector<std::uint32_t>& constants, const Push& push,
           const Groups& groups) {
    const auto pipeline = device_->pipeline(kernel, constants, sizeof push);
    ASSERT_TRUE(pipeline) << pipeline.error().message;
    const auto done = device_->run([&](Commands& commands) { commands.dispatch(*pipeline, push, groups); });
    ASSERT_TRUE(done) << done.error().message;
  }

  // sets: addresses of what the kernel reads by texel.
  template <class Push>
  void run_by_texel(const std::string& kernel, const std::vector<std::uint32_t>& constants, const Push& push,
                    const Groups& groups, const std::array<Address, 2>& sets) {
    const auto pipeline = device_->pipeline(kernel, constants, sizeof push);
    ASSERT_TRUE(pipeline) << pipeline.error().message;
    const auto w = device_->texels(sets[0]), x = device_->texels(sets[1]);
    ASSERT_TRUE(w && x);
    const auto done = device_->run([&](Commands& commands) {
      commands.dispatch(*pipeline, push, groups, {*w, *x});
    });
    ASSERT_TRUE(done) << done.error().message;
  }

  std::shared_ptr<Device> device_;
};

}  // namespace flyball::vulkan::test
