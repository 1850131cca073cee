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
#include "tests/kernels/formats/file_matrix.hpp"

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
  // Weights as a file has them, from `at` bytes behind a multiple of 8 on: scales and biases, too.
  struct DeviceFile {
    std::vector<Buffer> parts;
    WeightFormat format;
    Address address = 0;  // as kernels take it
  };
  DeviceFile put_file(const kernels::test::FileMatrix& file, kernels::DType type, std::uint32_t cols,
                      std::size_t at) {
    DeviceFile out;
    for (const auto* part : {&file.bytes, &file.scales, &file.biases})
      if (!part->empty()) out.parts.push_back(put_bytes(part->data(), part->size(), at));
    out.address = out.parts[0].address();
    out.format = format_of(type, cols, out.address);
    if (out.parts.size() == 1) return out;
    const AffineMatrix matrix{out.parts[0].address(), out.parts[1].address(), out.parts[2].address()};
    out.format = format_of(type, cols, matrix.codes, file.scale_type, matrix.scales, matrix.biases);
    out.parts.push_back(put(std::vector<AffineMatrix>{matrix}));
    out.address = out.parts.back().address();
    return out;
  }
  template <class Push>
  void run(const std::string& kernel, const std::vector<std::uint32_t>& constants, const Push& push,
           const Groups& groups) {
    const auto pipeline = device_->pipeline(kernel, constants, sizeof push);
    ASSERT_TRUE(pipeline) << pipeline.error().message;
    const auto done = device_->run([&](Commands& commands) { commands.dispatch(*pipeline, push, groups); });
    ASSERT_TRUE(done) << done.error().message;
  }

  // sets: addresses of what the kernel reads by texel, or writes.
  template <class Push>
  void run_by_texel(const std::string& kernel, const std::vector<std::uint32_t>& constants, const Push& push,
                    const Groups& groups, std::initializer_list<Address> sets) {
    const auto pipeline = device_->pipeline(kernel, constants, sizeof push);
    ASSERT_TRUE(pipeline) << pipeline.error().message;
    std::vector<Texels> texels;
    for (const Address address : sets) {
      const auto found = device_->texels(address);
      ASSERT_TRUE(found) << found.error().message;
      texels.push_back(*found);
    }
    const auto done =
        device_->run([&](Commands& commands) { commands.dispatch(*pipeline, push, groups, texels); });
    ASSERT_TRUE(done) << done.error().message;
  }

  std::shared_ptr<Device> device_;
};

}  // namespace flyball::vulkan::test
