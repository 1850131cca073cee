// A Vulkan engine whose driver fails: each allocation, import, build, recording, submission and wait in turn,
// a device that does not answer, one that is not there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/engine/vulkan/support.hpp"

namespace flyball::test {
namespace {

using testing::HasSubstr;
using vulkan::Call;

constexpr int kOutOfMemory = -2;  // VK_ERROR_OUT_OF_DEVICE_MEMORY
constexpr int kLost = -4;         // VK_ERROR_DEVICE_LOST

RunModel small_model(std::string_view shape = "dim=64,layers=1,heads=4,kv_heads=2,ffn=96,vocab=320") {
  return synthetic_model(kernels::DType::q8_0, shape);
}

vulkan::VulkanDeviceOptions options_for(std::uint32_t step_tokens, std::uint32_t rows) {
  auto options = vulkan_options();
  options.max_step_tokens = step_tokens;
  options.max_logit_rows = rows;
  return options;
}

// Everything an engine does: open, load, reserve, a prompt with a copied block in a step that might be given
// up, a decoded token, its row of logits whole and cut.
Result<void> live_once(const model::ModelFile& file, const vulkan::VulkanDeviceOptions& options) {
  auto executor = vulkan::make_vulkan_executor(file, options);
  if (!executor) return std::unexpected(std::move(executor.error()));
  if (auto ok = (*executor)->reserve_kv(graph::kv_layout(file.config()), 4); !ok)
    return std::unexpected(std::move(ok.error()));
  const std::vector<Token> prompt{1, 2, 3, 4, 5};
  const std::vector<std::uint32_t> table{0, 1};
  const engine::BlockCopy copy{2, 3};
  const std::atomic<bool> never{false};
  for (std::uint32_t at = 0; at < 6; at += 5) {
    const engine::StepSequence sequence{0, at == 0 ? 5U : 1U, at, table, true, at == 0 ? 0U : 3U, true};
    auto step = (*executor)->submit(
        {std::span(prompt).first(sequence.n_tokens), {&sequence, 1}, 0, at == 0 ? &never : nullptr},
        {&copy, at == 0 ? 1U : 0U});
    if (!step) return std::unexpected(std::move(step.error()));
    if (auto rows = (*executor)->wait(*step); !rows) return std::unexpected(std::move(rows.error()));
  }
  return {};
}

class VulkanFaults : public VulkanTest {};

struct FailingCalls {
  Call kind;
  vulkan::WeightsIn weights;
};

class VulkanCallFails : public VulkanTest, public testing::WithParamInterface<FailingCalls> {};

// The nth call of a kind fails, for every n: a typed error, and nothing is left on the device.
TEST_P(VulkanCallFails, AndNothingIsLeft) {
  const auto [kind, weights] = GetParam();
  const auto m = small_model();
  std::size_t n = 0;
  for (bool failed = true; failed; ++n) {
    ASSERT_LT(n, 2000U);
    std::size_t seen = 0;
    bool struck = false;
    auto options = options_for(8, 2);
    options.weights = weights;
    options.device.validate = false;  // hundreds of engines
    options.device.interceptor = [&, kind = kind](Call call) {
      if (call != kind || seen++ != n) return 0;
      struck = true;
      return kind == Call::allocate ? kOutOfMemory : kLost;
    };
    std::shared_ptr<const vulkan::Books> books;
    options.device.on_open = [&](std::shared_ptr<const vulkan::Books> b) { books = std::move(b); };
    const auto lived = live_once(*m.file, options);
    failed = struck;
    if (books) {
      EXPECT_EQ(books->live, 0) << "after call " << n;
      EXPECT_EQ(books->bytes, 0U);
    }
    if (lived) {
      // Pipelines that are not kept, or not taken, are compiled again: the one failure that is made good.
      EXPECT_TRUE(!struck || kind == Call::build);
      continue;
    }
    const ErrorCode code = lived.error().code;
    const ErrorCode of_allocation = n < 2    ? ErrorCode::model_unavailable  // the loader, its devices
                                    : n == 2 ? ErrorCode::device_lost        // the device
                                             : ErrorCode::insufficient_memory;
    EXPECT_EQ(code, kind == Call::allocate ? of_allocation : ErrorCode::device_lost) << lived.error().message;
    EXPECT_THAT(lived.error().message, HasSubstr("."));
  }
  EXPECT_GT(n, 5U);
}

constexpr auto kAutomatic = vulkan::WeightsIn::automatic, kStaged = vulkan::WeightsIn::staged;
std::string call_name(const testing::TestParamInfo<FailingCalls>& i) {
  constexpr const char* kNames[] = {"allocate", "import", "build", "record", "submit", "wait"};
  return std::string(kNames[static_cast<std::size_t>(i.param.kind)]) +
         (i.param.weights == kStaged ? "_staged" : "");
}

INSTANTIATE_TEST_SUITE_P(
    Calls, VulkanCallFails,
    testing::Values(FailingCalls{Call::allocate, kAutomatic}, FailingCalls{Call::allocate, kStaged},
                    FailingCalls{Call::build, kAutomatic}, FailingCalls{Call::record, kAutomatic},
                    FailingCalls{Call::record, kStaged}, FailingCalls{Call::submit, kAutomatic},
                    FailingCalls{Call::submit, kStaged}, FailingCalls{Call::wait, kAutomatic},
                    FailingCalls{Call::wait, kStaged}),
    call_name);

// A driver that refuses the file's pages gets a copy.
TEST_F(VulkanFaults, WhatCannotBeImportedIsCopied) {
  auto spec = model::parse_synthetic_shape("dim=64,layers=1,heads=4,kv_heads=2,ffn=96,vocab=320").value();
  spec.type = kernels::DType::q8_0;
  const auto path =
      std::filesystem::temp_directory_path() / ("flyball_vulkan_" + std::to_string(getpid()) + ".gguf");
  ASSERT_TRUE(model::write_synthetic_file(spec, path, 1));
  const auto file = model::ModelFile::open(path).value();
  std::filesystem::remove(path);
  auto options = options_for(8, 2);
  options.device.interceptor = [](Call call) { return call == Call::import ? kOutOfMemory : 0; };
  const auto executor = vulkan::make_vulkan_executor(*file, options);
  ASSERT_TRUE(executor) << executor.error().message;
  EXPECT_NE((*executor)->statistics().weights_in, vulkan::WeightsIn::file);
  options.weights = vulkan::WeightsIn::file;
  const auto refused = vulkan::make_vulkan_executor(*file, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported_value);
}

TEST_F(VulkanFaults, TheBooksGiveBackWhatIsReleased) {
  auto device = vulkan::Device::open(any_vulkan_device()).value();
  {
    auto a = device->allocate(4096, "a test", vulkan::Place::device).value();
    auto b = device->allocate(1024, "a test", vulkan::Place::device).value();
    EXPECT_EQ(device->allocated(), 5120U);
    b = std::move(a);
    EXPECT_EQ(device->allocated(), 5120U);  // what b held is a's to release
  }
  EXPECT_EQ(device->allocated(), 0U);
}

TEST_F(VulkanFaults, OnlyTheDeviceThatWasProbedIsOpened) {
  const auto found = vulkan::list_devices().value();
  for (const vulkan::DeviceFacts& one : found) {
    EXPECT_EQ(std::ranges::count(found, one.id, [](const auto& d) { return d.id; }), 1);
    if (!one.lacks.empty()) continue;
    vulkan::DeviceOptions options;
    options.id = one.id;
    EXPECT_EQ(vulkan::Device::open(options).value()->facts().id, one.id);
    options.id.pop_back();
    const auto other = vulkan::Device::open(options);
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code, ErrorCode::model_unavailable);
    EXPECT_THAT(other.error().message, HasSubstr("is gone"));
  }
}

TEST_F(VulkanFaults, NoDeviceOfThatName) {
  vulkan::DeviceOptions options;
  options.name = "no such device";
  const auto device = vulkan::Device::open(options);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::model_unavailable);
  EXPECT_EQ(device.error().param, "device");
}

TEST_F(VulkanFaults, ADeviceThatDoesNotAnswerInTimeIsLost) {
  const auto m = small_model("dim=256,layers=1,heads=4,kv_heads=2,ffn=256,vocab=50000");
  auto options = options_for(64, 64);
  options.device.fence_deadline = std::chrono::microseconds(1);
  auto executor = vulkan::make_vulkan_executor(*m.file, options);
  ASSERT_TRUE(executor) << executor.error().message;
  // Patience for a microsecond; the warm-up's logits take longer.
  const auto lived = (*executor)->reserve_kv(graph::kv_layout(m.file->config()), 4);
  ASSERT_FALSE(lived);
  EXPECT_EQ(lived.error().code, ErrorCode::device_lost);
  EXPECT_THAT(lived.error().message, HasSubstr("gave no answer within"));
}

// One that never comes to rest keeps all it has, and what it reads of the model.
TEST_F(VulkanFaults, ADeviceThatIsNeverAtRestIsLeftAlone) {
  const auto m = small_model();
  auto options = options_for(8, 2);
  options.device.validate = false;  // it would say that the device still works
  options.device.interceptor = [](Call call) {
    return call == Call::wait || call == Call::settle ? kLost : 0;
  };
  const auto owner = std::make_shared<int>(1);
  options.model_owner = owner;
  std::shared_ptr<const vulkan::Books> books;
  options.device.on_open = [&](std::shared_ptr<const vulkan::Books> b) { books = std::move(b); };
  auto executor = vulkan::make_vulkan_executor(*m.file, options);
  ASSERT_TRUE(executor) << executor.error().message;
  EXPECT_FALSE((*executor)->reserve_kv(graph::kv_layout(m.file->config()), 4));
  options.model_owner = {};
  *executor = {};
  EXPECT_TRUE(books->abandoned);
  EXPECT_GT(books->live, 0);
  EXPECT_GT(owner.use_count(), 1);
}

TEST_F(VulkanFaults, TooLittleMemoryIsSaidBeforeItHurts) {
  const auto m = small_model();
  auto options = options_for(8, 2);
  options.device.allocation_limit = 1 << 20;
  auto executor = vulkan::make_vulkan_executor(*m.file, options).value();
  const auto ok = executor->reserve_kv(graph::kv_layout(m.file->config()), 100'000);
  ASSERT_FALSE(ok);
  EXPECT_EQ(ok.error().code, ErrorCode::insufficient_memory);
  EXPECT_THAT(ok.error().message, HasSubstr("KV cache"));
}

TEST_F(VulkanFaults, AKernelThatIsNotThereIsNamed) {
  const auto device = vulkan::Device::open(any_vulkan_device()).value();
  const std::uint32_t constants[] = {64};
  const auto kernel = device->pipeline("no_such_kernel", constants, 16);
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().code, ErrorCode::model_unsupported);
  EXPECT_THAT(kernel.error().message, HasSubstr("no_such_kernel"));
  const std::uint32_t too_many[] = {2 * device->facts().max_work_group};
  const auto wide = device->pipeline("add", too_many, sizeof(vulkan::ElementwisePush));
  ASSERT_FALSE(wide);
  EXPECT_EQ(wide.error().code, ErrorCode::model_unsupported);
}

// No further try helps where a driver refuses a kernel; one that lacks memory may have it later.
TEST_F(VulkanFaults, AKernelThatIsNeverBuiltIsNotSupported) {
  constexpr int kInvalidShader = -1000012000;
  const auto m = small_model();
  for (const auto& [given, told] : {std::pair(kInvalidShader, ErrorCode::model_unsupported),
                                    std::pair(kOutOfMemory, ErrorCode::insufficient_memory)}) {
    auto options = options_for(8, 2);
    int builds = 0;
    options.device.interceptor = [&, code = given](Call call) {
      return call == Call::build && ++builds > 3 ? code : 0;
    };
    const auto made = vulkan::make_vulkan_executor(*m.file, options);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, told) << made.error().message;
  }
}

// Whatever the first requests are: all that a step can need is there once the engine is ready.
TEST_F(VulkanFaults, NoStepCompiles) {
  const auto m = small_model();
  const auto executor = vulkan::make_vulkan_executor(*m.file, options_for(12, 12)).value();
  ASSERT_TRUE(executor->reserve_kv(graph::kv_layout(m.file->config()), 12));
  const auto ready = executor->statistics().pipelines;
  const std::vector<std::uint32_t> tables{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  for (std::uint32_t n = 1; n <= 12; ++n)
    for (const bool together : {true, false}) {  // one sequence's tokens, or a token each of several
      const std::vector<Token> tokens(n, 1);
      std::vector<engine::StepSequence> sequences;
      for (std::uint32_t s = 0; s < (together ? 1 : n); ++s)
        sequences.push_back({s, together ? n : 1, 0, std::span(tables).subspan(s, 1), true});
      const auto step = executor->submit({tokens, sequences}, {});
      ASSERT_TRUE(step);
      ASSERT_TRUE(executor->wait(*step));
      EXPECT_EQ(executor->statistics().pipelines, ready) << n << " tokens";
    }
}

}  // namespace
}  // namespace flyball::test
