// Devices that do not answer, and the end of an engine on one: bounded in time, and nothing is freed that the
// device may still touch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <utility>

#include "tests/backends/opencl/support.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace flyball {
namespace {

using namespace std::chrono_literals;
using opencl::Call;
using opencl::Handle;

// What is left to a device that does not come to rest is a leak, on purpose.
class OpenClHangs : public test::OpenClTest {
#if defined(__SANITIZE_ADDRESS__)
 protected:
  OpenClHangs() {
    __lsan_disable();
  }
  ~OpenClHangs() override {
    __lsan_enable();
  }
#endif
};

// A kernel that runs until the host lets it end. Other tests of this process have the same device, whose next
// answer waits for it: so whoever hangs it lets it end, and waits for that. A device that has a copy of the
// words (a GPU) does not see the host's: there the kernel ends by itself, after seconds, and the host waits
// as long.
class Hang {
 public:
  // The device's next answer will be late. processor: it sees the host's words.
  void begin(opencl::Device& device, bool processor) {
    program_ = device.compile("spin", kSpin, "").value();
    kernel_ = device.kernel(program_, "spin").value();
    words_ = device.allocate_pinned(2 * sizeof(std::uint32_t), "a test").value();
    words()[0] = 0;
    words()[1] = 0;
    sees_words_ = processor;
    begun_ = device.run(kernel_, {}, words_.buffer, sees_words_ ? kRounds : kRoundsOfGpu).has_value();
    ASSERT_TRUE(begun_);
  }
  // What is the device's. The words stay: it is never released.
  void let_go() {
    words_.buffer = {};
    kernel_ = {};
    program_ = {};
  }
  bool runs() const { return words()[1] == 0; }
  ~Hang() {
    if (!begun_) return;
    words()[0] = 1;
    const auto longest = std::chrono::steady_clock::now() + (sees_words_ ? 10min : 10s);
    while (runs() && std::chrono::steady_clock::now() < longest) std::this_thread::sleep_for(1ms);
  }

 private:
  volatile std::uint32_t* words() const { return reinterpret_cast<volatile std::uint32_t*>(words_.host); }

  static constexpr std::string_view kSpin[] = {
      "__kernel void spin(volatile __global uint* x, uint n) {\n"
      "  for (uint i = 0; i < n && x[0] == 0; ++i) {}\n"
      "  x[1] = 1;\n"
      "}\n"};
  static constexpr std::uint32_t kRounds = 4'000'000'000;
  static constexpr std::uint32_t kRoundsOfGpu =
      5'000'000;  // of 0.3 to 1 us: its memory's, or the host's over the bus
  Handle<cl_program> program_;
  opencl::Kernel kernel_;
  opencl::Device::Pinned words_;
  bool begun_ = false;
  bool sees_words_ = true;
};

// A processor calls when it is done, a GPU is asked.
TEST_F(OpenClHangs, TheEndOfADeviceThatHangsIsBoundedAndReleasesNothing) {
  const bool processor = opencl::Device::open(test::any_device()).value()->facts().processor;
  for (const bool asked : {false, true}) {
    auto options = test::any_device();
    options.pretence.gpu = asked;
    options.fence_deadline = 300ms;
    options.settle_deadline = 100ms;
    std::shared_ptr<const opencl::Objects> objects;
    options.on_open = [&](std::shared_ptr<const opencl::Objects> o) { objects = std::move(o); };
    auto device = opencl::Device::open(options).value();
    Hang hang;
    ASSERT_NO_FATAL_FAILURE(hang.begin(*device, processor));

    const auto ok = device->finish();
    ASSERT_FALSE(ok);
    EXPECT_EQ(ok.error().code, ErrorCode::device_lost);
    EXPECT_THAT(ok.error().message, testing::HasSubstr("gave no answer within 300 ms"));
    EXPECT_FALSE(device->settle());
    EXPECT_FALSE(device->settle());  // the wait is not begun again
    hang.let_go();
    device.reset();
    EXPECT_TRUE(hang.runs()) << "drivers wait for the queue when it is released";
    EXPECT_TRUE(objects->abandoned);
    EXPECT_GE(objects->live, 5) << "context, queue, program, kernel, buffer";
  }
}

// An allocation is a dispatch: nothing of a device that does not answer it is released either.
TEST_F(OpenClHangs, AnAllocationThatHangsIsNotReleased) {
  for (const bool pinned : {false, true}) {
    auto options = test::any_device();
    options.fence_deadline = 300ms;
    options.settle_deadline = 100ms;
    std::shared_ptr<const opencl::Objects> objects;
    options.on_open = [&](std::shared_ptr<const opencl::Objects> o) { objects = std::move(o); };
    auto device = opencl::Device::open(options).value();
    Hang hang;
    ASSERT_NO_FATAL_FAILURE(hang.begin(*device, device->facts().processor));

    const ErrorCode code = pinned ? device->allocate_pinned(64, "a test").error().code
                                  : device->allocate(64, "a test").error().code;
    EXPECT_EQ(code, ErrorCode::device_lost);
    const auto live = objects->live.load();
    hang.let_go();
    device.reset();  // nobody but the device itself knows of the wait that went wrong
    EXPECT_TRUE(hang.runs());
    EXPECT_TRUE(objects->abandoned);
    EXPECT_EQ(objects->live, live + 1) << "what there was, and the marker that was to show it at rest";
    EXPECT_GE(live, 6) << "context, queue, program, kernel, two buffers";
  }
}

// Each answer in turn is late, of allocations and maps too. What was made is released once the device was
// seen at rest, and not before; of one that never is, nothing.
TEST_F(OpenClHangs, EachAnswerMayBeLate) {
  const auto m = test::small_model();
  for (const bool upload : {false, true})
    for (const bool rests : {true, false}) {
      bool struck = true;
      for (std::size_t n = 0; struck; n += rests ? 1 : 3) {
        ASSERT_LT(n, 500U);
        SCOPED_TRACE("answer " + std::to_string(n) + (upload ? ", uploaded" : ", in place"));
        std::size_t seen = 0;
        std::int64_t live = 0;
        bool asked = false;
        std::shared_ptr<const opencl::Objects> objects;
        opencl::OpenClDeviceOptions options;
        options.devices = {test::any_device()};
        options.program_cache = test::shared_programs();
        options.max_step_tokens = 8;
        options.max_logit_rows = 2;
        options.upload = upload;
        options.devices[0].on_open = [&](std::shared_ptr<const opencl::Objects> o) {
          objects = std::move(o);
        };
        struck = false;
        options.devices[0].interceptor = [&](Call call) {
          if (call == Call::settle && struck && !std::exchange(asked, true)) {
            EXPECT_GE(objects->live, live);
          }
          if (call == Call::settle && !rests) return CL_OUT_OF_RESOURCES;
          if (call != Call::answer || seen++ != n) return CL_SUCCESS;
          struck = true;
          live = objects->live;
          return CL_OUT_OF_RESOURCES;
        };
        const auto lived = test::live_once(*m.file, options);
        ASSERT_EQ(lived.has_value(), !struck);
        EXPECT_EQ(objects->abandoned, struck && !rests);
        if (!struck) {
          EXPECT_GT(n, 10U);
          continue;
        }
        EXPECT_TRUE(asked);
        EXPECT_EQ(lived.error().code, ErrorCode::device_lost) << lived.error().message;
        EXPECT_THAT(lived.error().message, testing::HasSubstr("gave no answer within"));
        if (rests) {
          EXPECT_EQ(objects->live, 0);
        } else {
          EXPECT_GE(objects->live, live);
        }
      }
    }
}

TEST_F(OpenClHangs, AMarkerThatFailsIsNoRest) {
  auto options = test::any_device();
  options.interceptor = [](Call call) { return call == Call::settle ? CL_OUT_OF_RESOURCES : CL_SUCCESS; };
  auto device = opencl::Device::open(options).value();
  EXPECT_FALSE(device->settle());
  auto well = opencl::Device::open(test::any_device()).value();
  EXPECT_TRUE(well->settle());
}

// A load that fails while a copy reads the pinned ring.
TEST_F(OpenClHangs, ARingThatIsBeingReadIsLeftMapped) {
  for (const bool rests : {true, false}) {
    auto options = test::any_device();
    bool fail = false;
    options.interceptor = [&](Call call) {
      if (call == Call::settle && !rests) return CL_OUT_OF_RESOURCES;
      return fail && call == Call::enqueue ? CL_DEVICE_NOT_AVAILABLE : CL_SUCCESS;
    };
    std::shared_ptr<const opencl::Objects> objects;
    options.on_open = [&](std::shared_ptr<const opencl::Objects> o) { objects = std::move(o); };
    auto device = opencl::Device::open(options).value();
    auto buffer = device->allocate(1 << 20, "a test").value();
    const std::vector<std::byte> bytes(1 << 16);
    {
      auto uploader = opencl::Uploader::make(*device, bytes.size(), {}).value();
      ASSERT_TRUE(uploader->put(buffer, 0, bytes));  // under way until someone waits
      fail = true;
      ASSERT_FALSE(uploader->put(buffer, 0, bytes));
    }
    EXPECT_EQ(objects->abandoned, !rests);
    buffer = {};
    device.reset();
    EXPECT_EQ(objects->live == 0, rests);
  }
}

// The device is never seen at rest, whether or not the step has ended by then.
TEST_F(OpenClHangs, AnEngineWithAStepUnderWayEndsAndLeavesWhatIsRead) {
  auto owner = std::make_shared<int>(0);
  std::weak_ptr<int> owned = owner;
  const auto m = test::small_model("dim=256,layers=4,heads=4,kv_heads=2,ffn=2048,vocab=1000");
  std::shared_ptr<const opencl::Objects> objects;
  opencl::OpenClDeviceOptions options;
  options.devices = {test::any_device()};
  options.devices[0].interceptor = [](Call call) {
    return call == Call::settle ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
  };
  options.devices[0].on_open = [&](std::shared_ptr<const opencl::Objects> o) { objects = std::move(o); };
  options.program_cache = test::shared_programs();
  options.max_step_tokens = 64;
  options.max_logit_rows = 2;
  options.model_owner = std::move(owner);
  auto executor = opencl::make_opencl_executor(*m.file, options).value();
  options.model_owner.reset();
  ASSERT_TRUE(executor->reserve_kv(graph::kv_layout(m.file->config()), 4));
  const std::vector<Token> prompt(64, 7);
  const std::vector<std::uint32_t> table{0, 1, 2, 3};
  const device::StepSequence sequence{0, 64, 0, table, true};
  ASSERT_TRUE(executor->submit({prompt, {&sequence, 1}}, {}));
  executor.reset();
  EXPECT_TRUE(objects->abandoned);
  EXPECT_GT(objects->live, 20);
  EXPECT_FALSE(owned.expired()) << "the file's pages are read in place";
  std::this_thread::sleep_for(500ms);  // the step runs on, over memory that is still there
}

}  // namespace
}  // namespace flyball
