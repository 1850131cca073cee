// OpenCL workers whose device fails under a stream (fault_streams.hpp).
#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/backends/opencl/support.hpp"
#include "tests/daemon/fleet/fault_streams.hpp"

namespace flyball::test {
namespace {

std::vector<std::string> ids_of(std::size_t n_devices) {
  std::vector<std::string> ids;
  const std::vector<opencl::DeviceOptions> wanted(n_devices, any_device());
  const auto devices = opencl::Device::open_all(wanted).value();
  for (const auto& device : devices) ids.push_back(device->facts().id);
  return ids;
}

class OpenClStreams : public OpenClTest {};

// Within the answer: a step of the demo model is some fifty enqueues and one wait, loading some more. And at
// the load, where the next target serves the stream from its first token.
TEST_F(OpenClStreams, GoOnElsewhereWhenTheDeviceFails) {
  constexpr DeviceFault kFaults[] = {{"enqueue:700", "OpenCL device"},
                                     {"wait:20", "OpenCL device"},
                                     {"allocate:9", "Not enough memory"},
                                     {"build:1", "The kernel"},
                                     {"build:12", "The kernel"}};
  expect_streams_go_on("opencl", ids_of(1), kFaults);
}

// The model's layers are split over two, of which one fails.
class SplitOpenClStreams : public OpenClTest {
 protected:
  void SetUp() override {
    setenv("POCL_DEVICES", "pthread pthread", 1);  // for the worker as well
    OpenClTest::SetUp();
    if (IsSkipped()) return;
    if (opencl::find_devices(*opencl::load_api().value()).size() < 2)
      GTEST_SKIP() << "this machine does not offer two OpenCL devices";
  }
};

TEST_F(SplitOpenClStreams, GoOnElsewhereWhenOneDeviceFails) {
  constexpr DeviceFault kFaults[] = {{"enqueue:400", "#1 ("}, {"wait:30", "#1 ("}, {"allocate:9", "#1 ("}};
  expect_streams_go_on("opencl", ids_of(2), kFaults);
}

}  // namespace
}  // namespace flyball::test
