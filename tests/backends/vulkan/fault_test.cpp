// A Vulkan engine whose driver fails: each allocation, import, build, recording, submission and wait in turn,
// a device that does not answer, one that is not there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "backends/vulkan/choice.hpp"
#include "backends/vulkan/memory_types.hpp"
#include "backends/vulkan/probe.hpp"
#include "tests/backends/model/mlx/directory.hpp"
#include "tests/backends/vulkan/support.hpp"
#include "tests/harness/temp_dir.hpp"

namespace flyball::test {
namespace {

using testing::HasSubstr;
using vulkan::Call;

constexpr int kOutOfMemory = -2;  // VK_ERROR_OUT_OF_DEVICE_MEMORY
constexpr int kLost = -4;         // VK_ERROR_DEVICE_LOST
constexpr int kTimeout = 2;       // VK_TIMEOUT

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
  const device::BlockCopy copy{2, 3};
  const std::atomic<bool> never{false};
  for (std::uint32_t at = 0; at < 6; at += 5) {
    const device::StepSequence sequence{0, at == 0 ? 5U : 1U, at, table, true, at == 0 ? 0U : 3U, true};
    auto step = (*executor)->submit(
        {std::span(prompt).first(sequence.n_tokens), {&sequence, 1}, 0, at == 0 ? &never : nullptr},
        {&copy, at == 0 ? 1U : 0U});
    if (!step) return std::unexpected(std::move(step.error()));
    if (auto rows = (*executor)->wait(*step); !rows) return std::unexpected(std::move(rows.error()));
  }
  return {};
}

class VulkanFaults : public VulkanTest {};

constexpr auto kAutomatic = vulkan::WeightsIn::automatic, kStaged = vulkan::WeightsIn::staged;

struct FailingCalls {
  Call kind;
  vulkan::WeightsIn weights;
};
std::string name_of(const FailingCalls& calls) {
  constexpr const char* kNames[] = {"allocate", "import", "build", "record", "submit", "wait"};
  return std::string(kNames[static_cast<std::size_t>(calls.kind)]) +
         (calls.weights == kStaged ? "_staged" : "");
}
void PrintTo(const FailingCalls& calls, std::ostream* out) {
  *out << name_of(calls);
}

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
    options.device.validate = false;     // hundreds of engines
    options.device.integer_dot = false;  // its trial may fail: then the engine is one without
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

INSTANTIATE_TEST_SUITE_P(
    Calls, VulkanCallFails,
    testing::Values(FailingCalls{Call::allocate, kAutomatic}, FailingCalls{Call::allocate, kStaged},
                    FailingCalls{Call::build, kAutomatic}, FailingCalls{Call::record, kAutomatic},
                    FailingCalls{Call::record, kStaged}, FailingCalls{Call::submit, kAutomatic},
                    FailingCalls{Call::submit, kStaged}, FailingCalls{Call::wait, kAutomatic},
                    FailingCalls{Call::wait, kStaged}),
    [](const auto& i) { return name_of(i.param); });

// A model in two mapped files, which are two imports.
class VulkanImports : public VulkanTest {
 protected:
  void SetUp() override {
    VulkanTest::SetUp();
    if (IsSkipped()) return;
    const auto facts = vulkan::Device::open(any_vulkan_device()).value()->facts();
    if (!facts.host_import || !facts.unified) GTEST_SKIP() << "this device reads no pages of the host's";
    MlxTestDirectory d;
    d.make_float();
    d.aligned = true;
    MlxTexts(d, 2).write(dir_.path());
    auto opened = model::ModelFile::open(dir_.path());
    ASSERT_TRUE(opened) << opened.error().message;
    file_ = std::move(*opened);
  }
  vulkan::VulkanDeviceOptions options(vulkan::WeightsIn weights) {
    auto options = options_for(8, 2);
    options.weights = weights;
    options.warn = [this](const std::string& what) { warnings_.push_back(what); };
    return options;
  }
  TempDir dir_;
  std::unique_ptr<model::ModelFile> file_;
  std::vector<std::string> warnings_;
};

TEST_F(VulkanImports, TwoFilesAreReadWhereTheyLie) {
  int imports = 0;
  auto with = options(vulkan::WeightsIn::automatic);
  with.device.interceptor = [&](Call call) {
    imports += call == Call::import ? 1 : 0;
    return 0;
  };
  const auto executor = vulkan::make_vulkan_executor(*file_, with);
  ASSERT_TRUE(executor) << executor.error().message;
  EXPECT_EQ((*executor)->statistics().weights_in, vulkan::WeightsIn::file);
  EXPECT_EQ(imports, 2);
}

// A driver that refuses the file's pages gets a copy; one that is lost over them is opened again first.
TEST_F(VulkanImports, WhatCannotBeImportedIsCopied) {
  for (const auto weights : {vulkan::WeightsIn::automatic, vulkan::WeightsIn::file})
    for (const int code : {kOutOfMemory, kLost})
      for (int failing = 0; failing < 2; ++failing) {
        auto with = options(weights);
        int imports = 0, opened = 0;
        with.device.interceptor = [&](Call call) {
          return call == Call::import && imports++ == failing ? code : 0;
        };
        std::vector<std::shared_ptr<const vulkan::Books>> books;
        with.device.on_open = [&](auto b) {
          books.push_back(std::move(b));
          ++opened;
        };
        warnings_.clear();
        const auto lived = live_once(*file_, with);
        EXPECT_EQ(imports, failing + 1);
        for (const auto& of : books) EXPECT_EQ(of->live, 0);
        if (weights == vulkan::WeightsIn::file) {
          ASSERT_FALSE(lived);
          EXPECT_EQ(lived.error().code,
                    code == kLost ? ErrorCode::device_lost : ErrorCode::unsupported_value);
        } else {
          ASSERT_TRUE(lived) << lived.error().message;
          EXPECT_EQ(opened, code == kLost ? 2 : 1);
          EXPECT_EQ(warnings_.size(), code == kLost ? 1U : 0U);
        }
      }
}

// Drivers are known that take a file's pages and fail at the first submission that reads them.
TEST_F(VulkanImports, PagesThatFailTheFirstSubmissionAreCopied) {
  for (const Call failing : {Call::submit, Call::wait}) {
    auto with = options(vulkan::WeightsIn::automatic);
    bool failed = false;
    with.device.interceptor = [&](Call call) {
      if (call != failing || failed) return 0;
      failed = true;
      return kLost;
    };
    warnings_.clear();
    const auto executor = vulkan::make_vulkan_executor(*file_, with);
    ASSERT_TRUE(executor) << executor.error().message;
    EXPECT_TRUE(failed);
    EXPECT_EQ((*executor)->statistics().weights_in, vulkan::WeightsIn::shared);
    ASSERT_EQ(warnings_.size(), 1U);
    EXPECT_THAT(warnings_[0], HasSubstr("is copied instead"));
    EXPECT_TRUE((*executor)->reserve_kv(graph::kv_layout(file_->config()), 4));
  }
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

TEST(VulkanChoice, ADeviceThatLacksSomethingIsNotGone) {
  vulkan::DeviceFacts whole, lacking;
  whole.id = "A#0";
  lacking.id = "B#0";
  lacking.lacks = "shaderInt64";
  const vulkan::DeviceFacts found[] = {lacking, whole};
  vulkan::DeviceOptions options;
  options.id = "A#0";
  EXPECT_EQ(vulkan::choose_found(found, options).value(), 1U);
  options.id = "B#0";
  EXPECT_EQ(vulkan::choose_found(found, options).error().message, "The Vulkan device B#0 lacks shaderInt64.");
  options.id = "C#0";
  EXPECT_EQ(vulkan::choose_found(found, options).error().message,
            "The Vulkan device C#0 is gone; there is: B#0, which lacks shaderInt64, A#0.");
}

TEST(VulkanChoice, WhoFindsNoGpuReadsHowSoftwareIsTaken) {
  vulkan::DeviceFacts software;
  software.id = "llvmpipe#0";
  software.kind = "software";
  software.processor = true;
  vulkan::DeviceOptions options;
  EXPECT_EQ(vulkan::choose_found({&software, 1}, options).error().message,
            "No Vulkan GPU was found; there is: llvmpipe#0; a software device is taken where it is named.");
  options.name = "llvmpipe";
  EXPECT_EQ(vulkan::choose_found({&software, 1}, options).value(), 0U);
  software.lacks = "shaderInt64";
  options.name = "";
  EXPECT_EQ(vulkan::choose_found({&software, 1}, options).error().message,
            "No Vulkan GPU was found; there is: llvmpipe#0, which lacks shaderInt64.");
}

// A discrete GPU that maps a small part of its memory, and the host's: what no longer fits the first is
// tried in the others that will do.
TEST(VulkanMemoryTypes, TheSecondChoiceIsThere) {
  using namespace vulkan;
  constexpr std::uint32_t kMapped = kHostVisible | kHostCoherent;
  const std::uint32_t flags[] = {kDeviceLocal, kMapped, kMapped | kHostCached, kDeviceLocal | kMapped};
  using Types = std::vector<std::uint32_t>;
  EXPECT_EQ(memory_types(flags, 15, wish_of(Place::shared, false)), (Types{3, 1, 2}));
  EXPECT_EQ(memory_types(flags, 15, wish_of(Place::readback, false)), (Types{2, 1, 3}));
  EXPECT_EQ(memory_types(flags, 15, wish_of(Place::device, false)), (Types{0, 3}));
  EXPECT_EQ(memory_types(flags, 15, wish_of(Place::device, true)), (Types{3, 0}));
  EXPECT_EQ(memory_types(flags, 7, wish_of(Place::shared, false)), (Types{1, 2}));
  EXPECT_EQ(memory_types(flags, 1, wish_of(Place::shared, false)), Types{});
}

TEST_F(VulkanFaults, NoDeviceOfThatName) {
  vulkan::DeviceOptions options;
  options.name = "no such device";
  const auto device = vulkan::Device::open(options);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::model_unavailable);
  EXPECT_EQ(device.error().param, "device");
}

// Who waits for the probe hears of a device that does not answer, and of those after it.
TEST_F(VulkanFaults, TheProbeHasNoMorePatienceThanItsParent) {
  vulkan::DeviceOptions hangs;
  hangs.interceptor = [](Call call) { return call == Call::wait ? kTimeout : 0; };
  std::vector<DeviceReport> found;
  const ProbeRun run{std::chrono::milliseconds(1000), [&](const DeviceReport& d) { found.push_back(d); }};
  EXPECT_EQ(vulkan::probe_devices(run, hangs), "");
  ASSERT_FALSE(found.empty());
  for (const DeviceReport& device : found) {
    EXPECT_FALSE(device.dispatched);
    const std::string told = "gave no answer within ";
    const auto at = device.error.find(told);
    ASSERT_NE(at, std::string::npos) << device.error;
    EXPECT_LE(std::stoi(device.error.substr(at + told.size())), 800);
    EXPECT_NE(device.error.find(" ms.", at), std::string::npos) << device.error;
  }
  found.clear();
  EXPECT_EQ(vulkan::probe_devices({std::chrono::milliseconds(300'000), run.on_device}), "");
  EXPECT_TRUE(std::ranges::any_of(found, &DeviceReport::dispatched));
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

// What attention keeps between its kernels is sized by the sequences that are served, not by the model's.
TEST_F(VulkanFaults, ScratchIsForTheServedContext) {
  const auto m = small_model("dim=64,layers=1,heads=4,kv_heads=2,ffn=96,vocab=320,context=100000");
  std::uint64_t scratch[2];
  for (const bool told : {false, true}) {
    auto options = options_for(8, 8);
    if (told) options.context = 256;
    auto executor = vulkan::make_vulkan_executor(*m.file, options).value();
    ASSERT_TRUE(executor->reserve_kv(graph::kv_layout(m.file->config()), 2000));
    scratch[told] = executor->memory().scratch_bytes;
    if (!told) continue;
    // A longer one is computed all the same.
    const std::vector<std::uint32_t> blocks(40, 7);
    EXPECT_EQ(run_step(*executor, {{{1}, 600, blocks, true}}, m.vocab()).size(), 1U);
  }
  EXPECT_LT(2 * scratch[1], scratch[0]);
}

// One that would be computed wrongly is not computed.
TEST_F(VulkanFaults, ASequenceBeyondWhatAttentionIsForIsAnError) {
  const auto m = small_model("dim=64,layers=1,heads=4,kv_heads=2,ffn=96,vocab=320,context=4000000");
  auto executor = vulkan::make_vulkan_executor(*m.file, options_for(8, 8)).value();
  if (!executor->facts().processor) GTEST_SKIP() << "a GPU attends to any";
  ASSERT_TRUE(executor->reserve_kv(graph::kv_layout(m.file->config()), 8));
  const std::vector<std::uint32_t> blocks(200'000, 7);
  const Token token = 1;
  const device::StepSequence sequence{0, 1, 3'000'000, blocks, true};
  const auto step = executor->submit({{&token, 1}, {&sequence, 1}}, {});
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().code, ErrorCode::internal);
  EXPECT_THAT(step.error().message, HasSubstr("3000001 tokens"));
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

// A device that works in the machine's memory may have less of it than of its own limit.
TEST_F(VulkanFaults, TooLittleMemoryOfTheMachineIsSaidBeforeItHurts) {
  auto options = any_vulkan_device();
  std::uint64_t left = 1 << 20;
  options.available_memory = [&] { return left; };
  const auto device = vulkan::Device::open(options).value();
  if (!device->facts().unified) GTEST_SKIP() << "this device has memory of its own";
  EXPECT_TRUE(device->allocate(1 << 20, "a test", vulkan::Place::device));
  const auto refused = device->allocate((1 << 20) + 16, "a test", vulkan::Place::shared);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::insufficient_memory);
  EXPECT_THAT(refused.error().message, HasSubstr("1048592 bytes are needed, 1 MiB are free"));
  left = 0;  // the machine does not say
  EXPECT_TRUE(device->allocate(2 << 20, "a test", vulkan::Place::device));
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
      std::vector<device::StepSequence> sequences;
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
