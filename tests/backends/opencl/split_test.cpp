// A model's layers over several OpenCL devices: what one device says, two or three say bit for bit; each
// holds its share, is as ready as one alone, and may fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <tuple>

#include "tests/backends/device/row_cases.hpp"
#include "tests/backends/opencl/executors.hpp"
#include "tests/backends/opencl/split_support.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace flyball::opencl {

void PrintTo(Call call, std::ostream* out) {
  constexpr const char* kNames[] = {"allocate", "build", "enqueue", "wait", "answer", "settle"};
  *out << kNames[static_cast<std::size_t>(call)];
}

}  // namespace flyball::opencl

namespace flyball::test {
namespace {

using kernels::DType;
using opencl::Call;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kLayers5 =
    "dim=64,layers=5,heads=4,kv_heads=2,head_dim=32,ffn=96,vocab=320,context=1024";
constexpr std::string_view kBiased =
    "arch=qwen2,dim=64,layers=3,heads=4,kv_heads=2,head_dim=32,ffn=96,vocab=320";
constexpr std::string_view kMixture =
    "arch=qwen3moe,dim=64,layers=4,heads=4,kv_heads=2,head_dim=32,experts=4,experts_used=2,expert_ffn=32,"
    "vocab=320";

class OpenClSplit : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_many_devices()) GTEST_SKIP() << "this machine does not offer three OpenCL devices";
  }
  static opencl::OpenClDeviceOptions options_for(std::size_t n_devices) {
    auto options = opencl_options();
    options.devices = any_devices(n_devices);
    options.least_kv_bytes = 1 << 16;
    return options;
  }
  static std::unique_ptr<opencl::OpenClExecutor> over(const RunModel& m, std::size_t n_devices,
                                                      DType kv_type = DType::f16, bool upload = false) {
    auto options = options_for(n_devices);
    options.upload = upload;
    return opencl_executor(m, kv_type, options);
  }
};

class OpenClSplitFamily : public OpenClSplit, public testing::WithParamInterface<std::string_view> {};

TEST_P(OpenClSplitFamily, SaysWhatOneDeviceSays) {
  for (const auto& [kv_type, upload] : {std::pair(DType::f16, false), std::pair(DType::q8_0, true)}) {
    SCOPED_TRACE(upload ? "uploaded, KV as q8_0" : "in place, KV as f16");
    const auto m = synthetic_model(DType::q8_0, GetParam());
    const auto prompt = random_tokens(100, m.vocab());
    const std::vector<std::uint32_t> blocks{5, 3, 60, 7, 8, 9, 10};
    const auto one = over(m, 1, kv_type, upload);
    const auto logits = run_chunks(*one, prompt, blocks, m.vocab(), 32, 4);
    const auto tokens = greedy_tokens(*one, random_tokens(20, m.vocab(), 3), 64, m.vocab());
    for (const std::size_t n : {2U, 3U}) {
      const auto several = over(m, n, kv_type, upload);
      EXPECT_EQ(several->statistics().weights_in_place, !upload);
      EXPECT_EQ(run_chunks(*several, prompt, blocks, m.vocab(), 32, 4), logits) << n << " devices";
      EXPECT_EQ(greedy_tokens(*several, random_tokens(20, m.vocab(), 3), 64, m.vocab()), tokens)
          << n << " devices";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Families, OpenClSplitFamily, testing::Values(kLayers5, kBiased, kMixture), [](const auto& i) {
      return std::string(i.param == kLayers5 ? "llama" : i.param == kBiased ? "qwen2" : "qwen3moe");
    });

TEST_F(OpenClSplit, RowsAloneInBatchesInChunksAndCopiedAreTheSame) {
  const auto m = synthetic_model(DType::f16, kLayers5);
  for (const DType kv_type : {DType::f16, DType::q8_0}) {
    const auto device = over(m, 3, kv_type);
    expect_alone_equals_batched(*device, m.vocab());
    expect_whole_equals_chunked(*device, m.vocab());
    expect_copied_block_equals_computed(*device, m.vocab());
    EXPECT_EQ(last_of_900(*device, m.vocab(), 1), last_of_900(*over(m, 1, kv_type), m.vocab(), 20));
  }
}

// Of a step with rows wanted whole, cut and not at all.
TEST_F(OpenClSplit, CandidatesComeFromTheLastDevice) {
  const auto m = synthetic_model(DType::q8_0, kLayers5);
  const auto one = over(m, 1), three = over(m, 3);
  const std::vector<Token> tokens{1, 2, 3, 4, 5, 6};
  const std::vector<std::uint32_t> tables{0, 1, 2, 3};
  const std::vector<device::StepSequence> sequences{{0, 3, 0, {&tables[0], 1}, true, 7, true},
                                                    {3, 1, 0, {&tables[1], 1}, true},
                                                    {4, 1, 0, {&tables[2], 1}, false},
                                                    {5, 1, 0, {&tables[3], 1}, true, 64, false}};
  const auto expected = one->wait(one->submit({tokens, sequences}, {}).value()).value();
  const auto got = three->wait(three->submit({tokens, sequences}, {}).value()).value();
  EXPECT_TRUE(std::ranges::equal(got.logits, expected.logits));
  ASSERT_EQ(got.candidates.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(got.candidates[i].finite);
    EXPECT_EQ(got.candidates[i].exp_sum, expected.candidates[i].exp_sum);
    ASSERT_EQ(got.candidates[i].likeliest.size(), expected.candidates[i].likeliest.size());
    for (std::size_t k = 0; k < got.candidates[i].likeliest.size(); ++k) {
      EXPECT_EQ(got.candidates[i].likeliest[k].token, expected.candidates[i].likeliest[k].token);
      EXPECT_EQ(got.candidates[i].likeliest[k].value, expected.candidates[i].likeliest[k].value);
    }
  }
  EXPECT_EQ(three->statistics().result_bytes, one->statistics().result_bytes);
}

TEST_F(OpenClSplit, EachDeviceHoldsItsShareOnce) {
  const auto m = synthetic_model(DType::q8_0, kLayers5);
  const auto one = over(m, 1)->memory();
  for (const std::size_t n : {2U, 3U}) {
    const auto several = over(m, n);
    const auto parts = several->parts();
    const auto shares = several->shares();
    ASSERT_EQ(parts.size(), n);
    ASSERT_EQ(shares.size(), n);
    std::uint32_t at = 0;
    std::uint64_t bytes = 0;
    std::set<std::string> ids;
    for (std::size_t i = 0; i < n; ++i) {
      const graph::ModelPart& part = parts[i].part;
      EXPECT_EQ(part.begin, at);
      EXPECT_EQ(part.embeds, at == 0);
      at = part.end;
      EXPECT_EQ(part.projects, at == 5);
      EXPECT_EQ(shares[i].device, parts[i].facts.id);
      EXPECT_EQ(shares[i].first_layer, part.begin);
      EXPECT_EQ(shares[i].n_layers, part.n_layers());
      EXPECT_EQ(shares[i].kv_bytes, one.kv_bytes / 5 * part.n_layers());
      bytes += shares[i].total_bytes();
      ids.insert(parts[i].facts.id);
    }
    EXPECT_EQ(at, 5U);
    EXPECT_EQ(ids.size(), n);
    EXPECT_EQ(bytes, several->memory().total());
    EXPECT_EQ(several->memory().weight_bytes, one.weight_bytes);
    EXPECT_EQ(several->memory().kv_bytes, one.kv_bytes);
  }
}

TEST_F(OpenClSplit, ProgressIsOfTheWholeModel) {
  const auto m = synthetic_model(DType::q8_0, kLayers5);
  for (const bool upload : {false, true}) {
    std::uint64_t last = 0, total = 0;
    auto options = options_for(3);
    options.upload = upload;
    options.progress = [&](std::uint64_t done, std::uint64_t all) {
      EXPECT_GE(done, last);
      EXPECT_TRUE(total == 0 || all == total);
      last = done;
      total = all;
    };
    ASSERT_TRUE(opencl::make_opencl_executor(*m.file, options));
    EXPECT_EQ(last, total);
    EXPECT_GT(total, 0U);
  }
}

TEST_F(OpenClSplit, GoesByWhatEachDeviceHasFree) {
  const auto m = synthetic_model(DType::q8_0, "dim=64,layers=12,heads=4,kv_heads=2,ffn=96,vocab=320");
  auto options = options_for(2);
  options.devices[0].allocation_limit = 2 << 20;
  options.devices[1].allocation_limit = 6 << 20;
  const auto parts = opencl::make_opencl_executor(*m.file, options).value()->parts();
  EXPECT_LT(parts[0].part.n_layers(), parts[1].part.n_layers());

  options.devices[1].allocation_limit = 100'000;
  std::size_t allocations = 0;
  for (opencl::DeviceOptions& device : options.devices)
    device.interceptor = [&](Call call) { return allocations += call == Call::allocate, CL_SUCCESS; };
  const auto executor = opencl::make_opencl_executor(*m.file, options);
  ASSERT_FALSE(executor);
  EXPECT_EQ(executor.error().code, ErrorCode::insufficient_memory);
  EXPECT_THAT(executor.error().message, HasSubstr("#1 ("));
  EXPECT_THAT(executor.error().message, Not(HasSubstr("#0 (")));
  EXPECT_THAT(executor.error().message, HasSubstr("has 97.7 KiB."));
  EXPECT_EQ(allocations, 4U) << "contexts and queues: nothing is allocated before the plan";
}

TEST_F(OpenClSplit, WhatTheCacheLacksIsSaidOfItsDevice) {
  const auto m = synthetic_model(DType::q8_0, kLayers5);
  auto options = options_for(2);
  options.devices[1].allocation_limit = 8 << 20;
  const auto executor = opencl::make_opencl_executor(*m.file, options).value();
  const auto ok = executor->reserve_kv(graph::kv_layout(m.file->config()), 5000);
  ASSERT_FALSE(ok);
  EXPECT_EQ(ok.error().code, ErrorCode::insufficient_memory);
  EXPECT_THAT(ok.error().message, HasSubstr("#1 ("));
  EXPECT_THAT(ok.error().message, HasSubstr("KV cache"));
}

TEST_F(OpenClSplit, MoreDevicesThanLayersAreRefused) {
  const auto m = synthetic_model(DType::q8_0, "dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320");
  const auto executor = opencl::make_opencl_executor(*m.file, options_for(3));
  ASSERT_FALSE(executor);
  EXPECT_EQ(executor.error().code, ErrorCode::unsupported_value);
  EXPECT_EQ(executor.error().param, "devices");
}

TEST_F(OpenClSplit, MoreNamesThanDevicesAreRefused) {
  const auto api = opencl::load_api().value();
  const auto devices = opencl::Device::open_all(any_devices(opencl::find_devices(*api).size() + 1));
  ASSERT_FALSE(devices);
  EXPECT_EQ(devices.error().code, ErrorCode::model_unavailable);
  EXPECT_THAT(devices.error().message, HasSubstr("beside those already taken"));
  auto twice = any_devices(2);
  twice[0].id = twice[1].id = opencl::find_devices(*api)[0].facts.id;
  EXPECT_FALSE(opencl::Device::open_all(twice));
}

// All that a step can need is there, and has run, on every device once the engine is ready; and a second
// start compiles nothing.
TEST_F(OpenClSplit, NoStepCompilesNorASecondStart) {
  const auto m = synthetic_model(DType::q8_0, kLayers5);
  const TempDir cache;
  auto options = options_for(3);
  options.program_cache = cache.path() / "opencl";
  options.max_step_tokens = options.max_logit_rows = 12;
  for (const bool second : {false, true}) {
    const auto executor = opencl_executor(m, DType::f16, options);
    const auto ready = executor->statistics().programs_compiled;
    EXPECT_EQ(ready == 0, second);
    for (std::uint32_t n = 1; n <= 12; ++n) {
      std::vector<Piece> apart;
      for (std::uint32_t s = 0; s < n; ++s) apart.push_back({{1}, 0, {s}, s % 2 == 0});
      run_step(*executor, apart, m.vocab());
      run_step(*executor, {{std::vector<Token>(n, 1), 0, {0}, true}}, m.vocab());
      EXPECT_EQ(executor->statistics().programs_compiled, ready) << n << " tokens";
    }
  }
}

// A step is given up in the layers of either device: nothing more is enqueued, the copies are done on both,
// and the same step again is as if it had never been begun.
TEST_F(OpenClSplit, AStepIsGivenUpOnEitherDevice) {
  const auto m = synthetic_model(DType::q8_0, "dim=64,layers=16,heads=4,kv_heads=2,ffn=96,vocab=320");
  for (const std::size_t at : {0U, 1U}) {
    SCOPED_TRACE("device " + std::to_string(at));
    std::atomic<bool> stop{false};
    std::array<std::size_t, 2> enqueued{};
    bool stop_at_wait = false;
    auto options = options_for(2);
    for (std::size_t d = 0; d < 2; ++d)
      options.devices[d].interceptor = [&, d](Call call) {
        if (call == Call::enqueue) ++enqueued[d];
        if (call == Call::wait && d == at && stop_at_wait) stop = true;
        return CL_SUCCESS;
      };
    const auto device = opencl_executor(m, DType::f16, options);
    const Piece prompt{random_tokens(30, m.vocab()), 0, {3, 4}}, next{{5}, 16, {2, 1}};
    run_step(*device, {{random_tokens(16, m.vocab(), 2), 0, {2}, false}}, m.vocab());
    const auto expected_next = run_step(*device, {next}, m.vocab());
    enqueued = {};
    const auto expected = run_step(*device, {prompt}, m.vocab());
    const auto whole = enqueued;

    const device::StepSequence sequence{0, 30, 0, prompt.blocks, true};
    const device::StepBatch batch{prompt.tokens, {&sequence, 1}, 0, &stop};
    const device::BlockCopy copy{2, 40};
    enqueued = {};
    stop_at_wait = true;
    const auto stopped = device->submit(batch, {&copy, 1});
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
    EXPECT_LT(enqueued[at], whole[at] / 2);
    EXPECT_EQ(enqueued[1 - at] < whole[1 - at] / 2, at == 0) << "before it all of its layers, beyond it none";

    stop_at_wait = stop = false;
    EXPECT_EQ(run_step(*device, {{{5}, 16, {40, 41}}}, m.vocab()), expected_next);
    const auto step = device->submit(batch, {});
    ASSERT_TRUE(step) << step.error().message;
    EXPECT_TRUE(std::ranges::equal(device->wait(*step).value().logits, expected.at(0)));
  }
}

// Each has the kernels and the work-groups that it builds.
TEST_F(OpenClSplit, DevicesMayDiffer) {
  const auto m = synthetic_model(DType::q8_0, shape_for(DType::q8_0));
  const auto prompt = random_tokens(11, m.vocab(), 3);
  const auto expected = greedy_tokens(*cpu_executor(m), prompt, 32, m.vocab());
  for (const opencl::Pretence& pretence : {kAsGpu, opencl::Pretence{.local_bytes = 6 << 10}}) {
    auto options = options_for(2);
    options.devices[1].pretence = pretence;
    EXPECT_EQ(greedy_tokens(*opencl_executor(m, DType::f16, options), prompt, 32, m.vocab()), expected);
  }
}

class OpenClSplitFault : public OpenClSplit,
                         public testing::WithParamInterface<std::tuple<std::size_t, Call>> {};

// The nth call of a kind fails on one of the two, for every n, and of the many enqueues every fifth: a typed
// error that names it, and nothing is left on either.
TEST_P(OpenClSplitFault, EitherDeviceMayFail) {
  const auto [broken, kind] = GetParam();
  const auto m = synthetic_model(DType::q8_0, "dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320");
  bool struck = true;
  std::size_t n = 0;
  for (; struck; n += kind == Call::enqueue ? 5 : 1) {
    ASSERT_LT(n, 2000U);
    SCOPED_TRACE("call " + std::to_string(n));
    auto options = options_for(2);
    options.upload = true;
    options.max_step_tokens = options.max_logit_rows = 5;
    std::vector<std::shared_ptr<const opencl::Objects>> objects;
    for (opencl::DeviceOptions& device : options.devices)
      device.on_open = [&](std::shared_ptr<const opencl::Objects> o) { objects.push_back(std::move(o)); };
    std::size_t seen = 0;
    struck = false;
    options.devices[broken].interceptor = [&, kind = kind](Call call) {
      if (call != kind || seen++ != n) return CL_SUCCESS;
      struck = true;
      return CL_DEVICE_NOT_AVAILABLE;
    };
    const auto lived = live_once(*m.file, options);
    for (const auto& o : objects) EXPECT_EQ(o->live, 0);
    if (lived) {  // a binary that is not taken is compiled again
      EXPECT_TRUE(!struck || kind == Call::build);
      continue;
    }
    EXPECT_EQ(lived.error().code, kind == Call::build ? ErrorCode::model_unavailable : ErrorCode::device_lost)
        << lived.error().message;
    EXPECT_THAT(lived.error().message, HasSubstr("#" + std::to_string(broken) + " ("));
  }
  EXPECT_GT(n, 10U);
}

std::string fault_name(const testing::TestParamInfo<OpenClSplitFault::ParamType>& i) {
  const auto [broken, kind] = i.param;
  return "of_device_" + std::to_string(broken) + "_" + testing::PrintToString(kind);
}
INSTANTIATE_TEST_SUITE_P(Calls, OpenClSplitFault,
                         testing::Combine(testing::Values(0, 1),
                                          testing::Values(Call::allocate, Call::build, Call::enqueue,
                                                          Call::wait, Call::answer)),
                         fault_name);

// What one device may still touch is the other's too: memory pinned for it, rows it was handed.
TEST_F(OpenClSplit, WhereOneDeviceDoesNotRestAllIsLeft) {
#if defined(__SANITIZE_ADDRESS__)
  const __lsan::ScopedDisabler leaks_on_purpose;
#endif
  const auto m = synthetic_model(DType::q8_0, kLayers5);
  for (const std::size_t broken : {0U, 1U}) {
    auto owner = std::make_shared<int>(0);
    const std::weak_ptr<int> owned = owner;
    auto options = options_for(2);
    std::vector<std::shared_ptr<const opencl::Objects>> objects;
    for (opencl::DeviceOptions& device : options.devices)
      device.on_open = [&](std::shared_ptr<const opencl::Objects> o) { objects.push_back(std::move(o)); };
    bool lost = false;
    options.devices[broken].interceptor = [&lost](Call call) {
      return lost && (call == Call::wait || call == Call::settle) ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
    };
    options.model_owner = std::move(owner);
    auto executor = opencl_executor(m, DType::f16, options);
    options.model_owner.reset();
    lost = true;
    const std::vector<Token> tokens{1, 2, 3};
    const std::vector<std::uint32_t> table{0};
    const device::StepSequence sequence{0, 3, 0, table, true};
    auto step = executor->submit({tokens, {&sequence, 1}}, {});
    EXPECT_EQ(step.has_value(), broken == 1);
    if (step) {
      EXPECT_FALSE(executor->wait(*step));
    }
    executor.reset();
    EXPECT_TRUE(objects[broken]->abandoned);
    for (const auto& o : objects) EXPECT_GT(o->live, 20);
    EXPECT_FALSE(owned.expired()) << "the file's pages are read in place";
  }
}

}  // namespace
}  // namespace flyball::test
