// An OpenCL worker whose device fails, at its load or in the middle of a stream: the stream goes on with the policy's
// next target, token for token, and the worker has ended.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "daemon/fleet/fleet.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/route/dispatcher.hpp"
#include "tests/engine/opencl/support.hpp"
#include "tests/service/loop.hpp"

namespace flyball {
namespace {

struct Observer final : route::JobObserver {
  bool on_delta(std::size_t, const Delta& delta) override {
    text += delta.text;
    tokens += delta.tokens.size();
    return true;
  }
  void on_done(std::size_t, const Done&) override { done = true; }
  void on_error(const Error& e) override { error = e; }
  std::string text;
  std::size_t tokens = 0;
  bool done = false;
  std::optional<Error> error;
};

class OpenClStreams : public test::OpenClTest {
 protected:
  std::size_t n_devices_ = 1;
  // One greedy answer of 40 tokens, by the targets in this order.
  void ask(std::vector<policy::Target> targets, const char* fail_at, Observer& seen, std::string& last_backend,
           fleet::WorkerStatus& opencl) {
    setenv("FLYBALL_TEST_FAIL", fail_at, 1);
    boost::asio::io_context io;
    config::Config config;
    config::ModelEntry model;
    model.id = "demo";
    model.embedded = true;
    config.models.push_back(model);
    std::vector<std::string> ids;
    const std::vector<opencl::DeviceOptions> wanted(n_devices_, test::any_device());
    const auto devices = opencl::Device::open_all(wanted).value();
    for (const auto& device : devices) ids.push_back(device->facts().id);
    config.cache_dir = FLYBALL_BINARY_DIR "/opencl-tests/service";
    auto fleet = fleet::make_worker_fleet(io, config, {OPENCL_FAULT_ENGINE, ids});
    policy::Facts hardware;
    hardware.set("backend.cpu.available", true, "test");
    hardware.set("backend.opencl.available", true, "test");
    metrics::Metrics metrics;
    route::Dispatcher dispatcher(io, *fleet, hardware, metrics);
    policy::Tree tree;
    tree.fallback.id = "default";
    tree.fallback.because = "There is only one rule.";
    tree.fallback.use = std::move(targets);
    config::AppManifest app;
    app.id = "app";
    CompletionRequest base;
    base.sampling.temperature = 0.0F;
    base.max_tokens = 40;
    base.ignore_eos = true;
    auto observer = std::make_shared<Observer>();
    auto job = dispatcher.submit(
        {"job", nullptr, tree, app, config.models[0], {}, base, {TextPrompt{"Once upon a time"}}, 1}, observer);
    ASSERT_TRUE(job) << job.error().message;
    ASSERT_TRUE(test::run_until(
        io, [&] { return observer->done || observer->error.has_value(); }, std::chrono::seconds(120)));
    last_backend = (*job)->backend();
    const auto ended = [&] {
      for (const auto& worker : fleet->status())
        if (worker.backend == "opencl") opencl = worker;
      return opencl.state != fleet::WorkerState::ready;
    };
    if (!std::string(fail_at).empty()) {
      EXPECT_TRUE(test::run_until(io, ended));
    }
    seen = *observer;
    job->reset();
    fleet.reset();
  }
};

TEST_F(OpenClStreams, GoOnElsewhereWhenTheDeviceFails) {
  const policy::Target on_cpu{"cpu", "", 0, 0}, on_opencl{"opencl", "", 0, 0};
  Observer whole;
  std::string backend;
  fleet::WorkerStatus opencl;
  ask({on_opencl, on_cpu}, "", whole, backend, opencl);
  ASSERT_TRUE(whole.done) << (whole.error ? whole.error->message : "");
  EXPECT_EQ(backend, "opencl");
  EXPECT_EQ(whole.tokens, 40U);

  // Within the answer: a step of the demo model is some fifty enqueues and one wait, loading some more. And at the
  // load, where the next target serves the stream from its first token.
  for (const auto& [fault, told] : {std::pair("enqueue:700", "OpenCL device"), std::pair("wait:20", "OpenCL device"),
                                    std::pair("allocate:9", "Not enough memory"), std::pair("build:1", "The kernel"),
                                    std::pair("build:12", "The kernel")}) {
    Observer cut;
    ask({on_opencl, on_cpu}, fault, cut, backend, opencl);
    ASSERT_TRUE(cut.done) << fault << ": " << (cut.error ? cut.error->message : "");
    EXPECT_EQ(backend, "cpu") << fault;
    EXPECT_EQ(cut.tokens, 40U) << fault;
    EXPECT_EQ(cut.text, whole.text) << fault;
    EXPECT_NE(opencl.last_error.find(told), std::string::npos) << fault << ": " << opencl.last_error;
  }
}

// The model's layers are split over two, of which one fails.
class SplitOpenClStreams : public OpenClStreams {
 protected:
  void SetUp() override {
    setenv("POCL_DEVICES", "pthread pthread", 1);  // for the worker as well
    OpenClStreams::SetUp();
    if (IsSkipped()) return;
    n_devices_ = 2;
    if (opencl::find_devices(*opencl::load_api().value()).size() < n_devices_)
      GTEST_SKIP() << "this machine does not offer two OpenCL devices";
  }
};

TEST_F(SplitOpenClStreams, GoOnElsewhereWhenOneDeviceFails) {
  const policy::Target on_cpu{"cpu", "", 0, 0}, on_opencl{"opencl", "", 0, 0};
  Observer whole;
  std::string backend;
  fleet::WorkerStatus opencl;
  ask({on_opencl, on_cpu}, "", whole, backend, opencl);
  ASSERT_TRUE(whole.done) << (whole.error ? whole.error->message : "");
  EXPECT_EQ(backend, "opencl");
  for (const char* fault : {"enqueue:400", "wait:30", "allocate:9"}) {
    Observer cut;
    ask({on_opencl, on_cpu}, fault, cut, backend, opencl);
    ASSERT_TRUE(cut.done) << fault << ": " << (cut.error ? cut.error->message : "");
    EXPECT_EQ(backend, "cpu") << fault;
    EXPECT_EQ(cut.text, whole.text) << fault;
    EXPECT_NE(opencl.last_error.find("#1 ("), std::string::npos) << fault << ": " << opencl.last_error;
  }
}

}  // namespace
}  // namespace flyball
