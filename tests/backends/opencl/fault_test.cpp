// An OpenCL engine whose driver fails: each allocation, build, enqueue and wait in turn, a device that does
// not answer, programs that do not build, caches that are broken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "backends/opencl/programs.hpp"
#include "tests/backends/cpu/executor_runs.hpp"
#include "tests/backends/opencl/support.hpp"

namespace flyball {
namespace {

using opencl::Call;
using testing::HasSubstr;

opencl::OpenClDeviceOptions options_with(std::filesystem::path cache) {
  opencl::OpenClDeviceOptions options;
  options.devices = {test::any_device()};
  options.program_cache = std::move(cache);
  options.max_step_tokens = 8;
  options.max_logit_rows = 2;
  return options;
}

class OpenClFaults : public test::OpenClTest {};

// The nth call of a kind fails, for every n: a typed error, and nothing is left on the device.
TEST_F(OpenClFaults, EachCallMayFail) {
  const auto m = test::small_model("dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320");
  ASSERT_TRUE(test::live_once(*m.file, options_with(test::shared_programs())));
  for (const bool upload : {false, true})
    for (const Call kind : {Call::allocate, Call::build, Call::enqueue, Call::wait}) {
      std::size_t n = 0;
      bool failed = true;
      for (; failed; ++n) {
        ASSERT_LT(n, 2000U);
        std::size_t seen = 0;
        bool struck = false;
        auto options = options_with(test::shared_programs());
        options.upload = upload;
        options.devices[0].interceptor = [&](Call call) {
          if (call != kind || seen++ != n) return CL_SUCCESS;
          struck = true;
          return CL_OUT_OF_RESOURCES;
        };
        std::shared_ptr<const opencl::Objects> objects;
        options.devices[0].on_open = [&](std::shared_ptr<const opencl::Objects> o) {
          objects = std::move(o);
        };
        const auto lived = test::live_once(*m.file, options);
        failed = struck;
        if (objects) {
          EXPECT_EQ(objects->live, 0) << "after call " << n << " of kind " << static_cast<int>(kind);
        }
        if (lived) {
          // A binary that is not taken is compiled again: the one failure that is made good.
          EXPECT_TRUE(!struck || kind == Call::build);
          continue;
        }
        const ErrorCode code = lived.error().code;
        EXPECT_EQ(code, kind == Call::allocate
                            ? (n < 2 ? ErrorCode::device_lost
                                     : ErrorCode::insufficient_memory)  // 2: context, queue
                        : kind == Call::build ? ErrorCode::model_unavailable
                                              : ErrorCode::device_lost)
            << lived.error().message;
        EXPECT_THAT(lived.error().message, HasSubstr("."));
      }
      EXPECT_GT(n, kind == Call::wait ? 3U : 10U);
    }
}

// Without a cache there is nothing to make a failed build good from.
TEST_F(OpenClFaults, EachBuildMayFail) {
  const auto m = test::small_model();
  bool failed = true;
  for (std::size_t n = 0; failed; ++n) {
    ASSERT_LT(n, 200U);
    std::size_t seen = 0;
    auto options = options_with("");
    options.devices[0].interceptor = [&](Call call) {
      return call == Call::build && seen++ == n ? CL_OUT_OF_HOST_MEMORY : CL_SUCCESS;
    };
    std::shared_ptr<const opencl::Objects> objects;
    options.devices[0].on_open = [&](std::shared_ptr<const opencl::Objects> o) { objects = std::move(o); };
    const auto lived = test::live_once(*m.file, options);
    failed = !lived;
    EXPECT_EQ(objects->live, 0);
    if (failed) {
      EXPECT_EQ(lived.error().code, ErrorCode::model_unavailable) << lived.error().message;
      EXPECT_GT(seen, n);
    } else {
      EXPECT_GT(n, 10U);
    }
  }
}

// Drivers that take memory at its first use say there that there is none; one that failed there is lost.
TEST_F(OpenClFaults, TheFirstUseOfMemoryTellsNoneFromLost) {
  for (const auto& [status, code] :
       {std::pair(CL_MEM_OBJECT_ALLOCATION_FAILURE, ErrorCode::insufficient_memory),
        std::pair(CL_OUT_OF_RESOURCES, ErrorCode::insufficient_memory),
        std::pair(CL_DEVICE_NOT_AVAILABLE, ErrorCode::device_lost)}) {
    auto options = test::any_device();
    int call_of_allocation = 0;
    options.interceptor = [&, status = status](Call call) {
      return call == Call::allocate && ++call_of_allocation == 4 ? status
                                                                 : CL_SUCCESS;  // context, queue, buffer
    };
    auto device = opencl::Device::open(options).value();
    const auto buffer = device->allocate(4096, "a test");
    ASSERT_FALSE(buffer);
    EXPECT_EQ(buffer.error().code, code) << buffer.error().message;
    EXPECT_THAT(buffer.error().message, HasSubstr("clEnqueueFillBuffer"));
    EXPECT_EQ(device->allocated(), 0U);
  }
}

TEST_F(OpenClFaults, TheBooksGiveBackWhatIsReleased) {
  auto device = opencl::Device::open(test::any_device()).value();
  {
    auto a = device->allocate(4096, "a test").value();
    auto b = device->allocate(1000, "a test").value();
    EXPECT_EQ(device->allocated(), 5096U);
    b = std::move(a);
    EXPECT_EQ(device->allocated(), 5096U);  // what b held is a's to release
  }
  EXPECT_EQ(device->allocated(), 0U);
}

TEST_F(OpenClFaults, OnlyTheDeviceThatWasProbedIsOpened) {
  const auto api = opencl::load_api().value();
  const auto found = opencl::find_devices(*api);
  for (const opencl::FoundDevice& one : found) {
    EXPECT_EQ(std::ranges::count(found, one.facts.id, [](const auto& d) { return d.facts.id; }), 1);
    opencl::DeviceOptions options;
    options.id = one.facts.id;
    EXPECT_EQ(opencl::Device::open(options).value()->facts().id, one.facts.id);
    options.id.pop_back();
    const auto other = opencl::Device::open(options);
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code, ErrorCode::model_unavailable);
    EXPECT_THAT(other.error().message, HasSubstr("is gone"));
  }
}

TEST_F(OpenClFaults, ADeviceThatDoesNotAnswerInTimeIsLost) {
  const auto m = test::small_model("dim=256,layers=1,heads=4,kv_heads=2,ffn=256,vocab=50000");
  auto options = options_with(test::shared_programs());
  options.max_step_tokens = 64;
  options.max_logit_rows = 64;
  options.devices[0].fence_deadline = std::chrono::microseconds(1);
  auto executor = opencl::make_opencl_executor(*m.file, options);
  Result<void> lived;
  if (executor) lived = (*executor)->reserve_kv(graph::kv_layout(m.file->config()), 4);
  if (executor && lived) {
    // Patience for a microsecond; what is enqueued last, the logits of 64 rows, takes milliseconds.
    const std::vector<Token> prompt(64, 7);
    const std::vector<std::uint32_t> tables{0, 1, 2, 3};
    std::vector<device::StepSequence> sequences;
    for (std::uint32_t i = 0; i < 64; ++i) sequences.push_back({i, 1, i % 16, {&tables[i / 16], 1}, true});
    const auto step = (*executor)->submit({prompt, sequences}, {});
    ASSERT_TRUE(step);
    if (auto rows = (*executor)->wait(*step); !rows) lived = std::unexpected(rows.error());
  } else if (!executor) {
    lived = std::unexpected(executor.error());  // it was too slow even to load
  }
  ASSERT_FALSE(lived);
  EXPECT_EQ(lived.error().code, ErrorCode::device_lost);
  EXPECT_THAT(lived.error().message, HasSubstr("gave no answer within"));
}

TEST_F(OpenClFaults, ABuildErrorNamesKernelDeviceAndFirstError) {
  auto device = opencl::Device::open(test::any_device()).value();
  const std::string_view broken[] = {"__kernel void k(__global float* x) { x[0] = no_such_thing; }"};
  const auto program = device->compile("rms_norm", broken, "");
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code, ErrorCode::model_unsupported);
  EXPECT_THAT(program.error().message, HasSubstr("rms_norm"));
  EXPECT_THAT(program.error().message, HasSubstr(device->facts().name));
  EXPECT_THAT(program.error().message, HasSubstr("error"));
  EXPECT_EQ(program.error().where, "kernels/opencl/rms_norm.cl");
}

// What attention keeps between its kernels is sized by the sequences that are served, not by the model's.
TEST_F(OpenClFaults, ScratchIsForTheServedContext) {
  const auto m = test::small_model("dim=64,layers=1,heads=4,kv_heads=2,ffn=96,vocab=320,context=100000");
  std::uint64_t scratch[2];
  for (const bool told : {false, true}) {
    auto options = options_with(test::shared_programs());
    options.max_logit_rows = 8;
    if (told) options.context = 256;
    auto executor = opencl::make_opencl_executor(*m.file, options).value();
    ASSERT_TRUE(executor->reserve_kv(graph::kv_layout(m.file->config()), 2000));
    scratch[told] = executor->memory().scratch_bytes;
    if (!told) continue;
    // A longer one is computed all the same.
    const std::vector<std::uint32_t> blocks(40, 7);
    EXPECT_EQ(test::run_step(*executor, {{{1}, 600, blocks, true}}, m.vocab()).size(), 1U);
  }
  EXPECT_LT(2 * scratch[1], scratch[0]);
}

TEST_F(OpenClFaults, TooLittleMemoryIsSaidBeforeItHurts) {
  const auto m = test::small_model();
  auto options = options_with(test::shared_programs());
  options.devices[0].allocation_limit = 1 << 20;
  auto executor = opencl::make_opencl_executor(*m.file, options).value();
  const auto ok = executor->reserve_kv(graph::kv_layout(m.file->config()), 100'000);
  ASSERT_FALSE(ok);
  EXPECT_EQ(ok.error().code, ErrorCode::insufficient_memory);
  EXPECT_THAT(ok.error().message, HasSubstr("KV cache"));
}

TEST_F(OpenClFaults, AKernelThatNeedsMoreThanTheDeviceHasIsRefused) {
  const auto device = opencl::Device::open(test::any_device());
  ASSERT_TRUE(device);
  const auto make = [&](const std::string& source) {
    const std::string_view sources[] = {source};
    auto program = (*device)->compile("needy", sources, "");
    return program ? (*device)->kernel(*program, "needy") : std::unexpected(program.error());
  };
  const std::string items = std::to_string(2 * (*device)->facts().max_work_group);
  const auto wide = make("__kernel __attribute__((reqd_work_group_size(" + items +
                         ", 1, 1))) void needy(__global int* x) { x[get_global_id(0)] = 1; }");
  ASSERT_FALSE(wide);
  EXPECT_EQ(wide.error().code, ErrorCode::model_unsupported);
  EXPECT_THAT(wide.error().message, HasSubstr("needy"));
  const std::string words = std::to_string((*device)->facts().local_bytes / 2);
  const auto greedy =
      make("__kernel void needy(__global int* x) { __local int all[" + words +
           "]; all[x[0]] = x[1]; barrier(CLK_LOCAL_MEM_FENCE); x[get_global_id(0)] = all[x[2]]; }");
  ASSERT_FALSE(greedy);
  EXPECT_EQ(greedy.error().code, ErrorCode::model_unsupported);
  EXPECT_THAT(greedy.error().message, HasSubstr("needy"));
}

TEST_F(OpenClFaults, NoDeviceOfThatName) {
  opencl::DeviceOptions options;
  options.name = "no such device";
  const auto device = opencl::Device::open(options);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::model_unavailable);
  EXPECT_EQ(device.error().param, "device");
}

class OpenClPrograms : public test::OpenClTest {
 protected:
  opencl::OpenClStatistics start() {
    auto options = options_with(cache_.path() / "opencl");
    options.warn = [this](const std::string& what) { warnings_.push_back(what); };
    auto executor = opencl::make_opencl_executor(*model_.file, options);
    EXPECT_TRUE(executor);
    EXPECT_TRUE((*executor)->reserve_kv(graph::kv_layout(model_.file->config()), 4));
    const std::vector<Token> prompt{1, 2, 3};
    const std::vector<std::uint32_t> table{0};
    const device::StepSequence sequence{0, 3, 0, table, true};
    const auto step = (*executor)->submit({prompt, {&sequence, 1}}, {});
    EXPECT_TRUE(step);
    EXPECT_TRUE((*executor)->wait(*step));
    return (*executor)->statistics();
  }
  test::RunModel model_ = test::small_model();
  test::TempDir cache_;
  std::vector<std::string> warnings_;
};

TEST_F(OpenClPrograms, ASecondStartCompilesNothing) {
  const auto first = start();
  EXPECT_GT(first.programs_compiled, 5U);
  EXPECT_EQ(first.programs_from_cache, 0U);
  const auto second = start();
  EXPECT_EQ(second.programs_compiled, 0U);
  EXPECT_EQ(second.programs_from_cache, first.programs_compiled);
}

// Whatever the first requests are: all that a step can need is there once the engine is ready.
TEST_F(OpenClPrograms, NoStepCompiles) {
  auto options = options_with(cache_.path() / "opencl");
  options.max_step_tokens = 12;
  options.max_logit_rows = 12;
  auto executor = opencl::make_opencl_executor(*model_.file, options);
  ASSERT_TRUE(executor);
  ASSERT_TRUE((*executor)->reserve_kv(graph::kv_layout(model_.file->config()), 12));
  const auto ready = (*executor)->statistics().programs_compiled;
  for (std::uint32_t n = 1; n <= 12; ++n)
    for (const bool together : {true, false}) {  // one sequence's tokens, or a token each of several
      const std::vector<Token> tokens(n, 1);
      const std::vector<std::uint32_t> tables{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
      std::vector<device::StepSequence> sequences;
      for (std::uint32_t s = 0; s < (together ? 1 : n); ++s)
        sequences.push_back({s, together ? n : 1, 0, std::span(tables).subspan(s, 1), true});
      const auto step = (*executor)->submit({tokens, sequences}, {});
      ASSERT_TRUE(step);
      ASSERT_TRUE((*executor)->wait(*step));
      EXPECT_EQ((*executor)->statistics().programs_compiled, ready) << n << " tokens";
    }
}

TEST_F(OpenClPrograms, BrokenCacheFilesAreCompiledAnew) {
  const auto first = start();
  std::size_t n = 0;
  for (const auto& file : std::filesystem::directory_iterator(cache_.path() / "opencl")) {
    if (n++ % 2 == 0) {
      std::filesystem::resize_file(file.path(), 100);
    } else {
      std::fstream out(file.path(), std::ios::in | std::ios::out | std::ios::binary);
      out.seekp(200);
      out.put('!');
    }
  }
  EXPECT_EQ(n, first.programs_compiled);
  EXPECT_EQ(start().programs_compiled, first.programs_compiled);
  EXPECT_EQ(start().programs_compiled, 0U);
}

// Whole files under wrong names: programs without the kernel that is asked for, and bytes no driver takes.
TEST_F(OpenClPrograms, BinariesThatLackTheKernelOrAreNoneAreCompiledAnew) {
  const auto first = start();
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(cache_.path() / "opencl"))
    files.push_back(file.path());
  std::ranges::sort(files);
  const std::string aside = cache_.path() / "aside";
  std::filesystem::rename(files[0], aside);
  for (std::size_t i = 0; i + 1 < files.size(); ++i) std::filesystem::rename(files[i + 1], files[i]);
  std::filesystem::rename(aside, files.back());
  const auto second = start();
  EXPECT_GT(second.programs_compiled, first.programs_compiled / 2);  // some share a kernel's name
  EXPECT_EQ(second.programs_compiled + second.programs_from_cache, first.programs_compiled);

  const std::string junk(500, 'j');
  {
    device::KernelCache cache(cache_.path() / "opencl", opencl::kProgramFiles);
    for (const auto& file : files) cache.write(file.stem(), std::as_bytes(std::span(junk)));
  }
  EXPECT_EQ(start().programs_compiled, first.programs_compiled);
  EXPECT_EQ(start().programs_compiled, 0U);
}

TEST_F(OpenClPrograms, ACacheThatOthersMayWriteToIsNotUsed) {
  const auto first = start();
  std::filesystem::permissions(cache_.path() / "opencl", std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  const auto second = start();
  EXPECT_EQ(second.programs_compiled, first.programs_compiled);
  EXPECT_EQ(second.programs_from_cache, 0U);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr("others may write to it"));
}

TEST_F(OpenClPrograms, ACacheThatCannotBeWrittenCostsOneWarning) {
  std::ofstream(cache_.path() / "opencl") << "in the way";
  EXPECT_GT(start().programs_compiled, 5U);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr("Not a directory"));
}

}  // namespace
}  // namespace flyball
