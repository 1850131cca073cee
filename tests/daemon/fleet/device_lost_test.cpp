// A device that is lost in each answer, under the real dispatcher and real worker processes: every client has
// its whole answer by the policy's next target, and after the third loss the engine is not asked any more.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "daemon/fleet/fleet.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/route/dispatcher.hpp"
#include "tests/backends/worker/loop.hpp"

namespace flyball {
namespace {

struct Observer final : route::JobObserver {
  bool on_delta(std::size_t, const Delta& delta) override {
    text += delta.text;
    return true;
  }
  void on_done(std::size_t, const Done&) override { done = true; }
  void on_error(const Error& e) override { error = e.message; }
  std::string text, error;
  bool done = false;
};

TEST(DeviceLost, ThreeTimesDisablesTheEngineAndTheNextTargetServes) {
  boost::asio::io_context io;
  config::Config config;
  config.worker.heartbeat = std::chrono::milliseconds(50);
  config.worker.backoff_min = std::chrono::milliseconds(50);
  const auto loads = std::filesystem::temp_directory_path() / ("flyball-lost-" + std::to_string(getpid()));
  config::ModelEntry& model = config.models.emplace_back();
  model.id = "m";
  model.path = "tokens=6,lose_device=opencl,log=" + loads.string();
  fleet::FleetOptions options;
  options.executable = FAKE_ENGINE;
  options.devices[config::kOpenCl] = {"some device"};
  const auto fleet = fleet::make_worker_fleet(io, config, options);
  policy::Facts hardware;
  hardware.set("backend.cpu.available", true, "test");
  hardware.set("backend.opencl.available", true, "test");
  metrics::Metrics metrics;
  usage::Journal journal(io, nullptr, {});
  route::Dispatcher dispatcher(io, *fleet, hardware, metrics, journal);
  const policy::Tree tree =
      policy::parse_policy("schema: flyball.policy/v1\ndefault: {because: b, use: [opencl, cpu]}\n",
                           "policy.yaml")
          .value();
  config::AppManifest app;
  app.id = "app";
  CompletionRequest base;

  const auto opencl = [&] {
    for (const auto& worker : fleet->status())
      if (worker.backend == "opencl") return worker;
    return fleet::WorkerStatus{};
  };
  for (int n = 1; n <= 5; ++n) {
    const auto seen = std::make_shared<Observer>();
    const std::vector<Prompt> prompts{TextPrompt{"x"}};
    auto admission = dispatcher.admit({app, model, prompts});
    ASSERT_TRUE(admission);
    auto job = dispatcher.submit({"job", nullptr, tree, app, model, {}, base, prompts, {}, 1},
                                 std::move(*admission), seen);
    ASSERT_TRUE(test::run_until(io, [&] { return seen->done || !seen->error.empty(); })) << n;
    EXPECT_EQ(seen->error, "") << n;
    EXPECT_EQ(seen->text, "0 1 2 3 4 5 ") << n;
    const auto& attempts = job->receipt().attempts;
    if (n <= 3) {
      ASSERT_EQ(attempts.size(), 2U) << n;
      EXPECT_EQ(attempts[0].backend, "opencl");
      EXPECT_EQ(attempts[0].outcome.text(), "device_lost");
      EXPECT_EQ(attempts[1].resumed_tokens, 2U);
    } else {
      ASSERT_EQ(attempts.size(), 1U) << n;
    }
    EXPECT_EQ(attempts.back().backend, "cpu") << n;
    job.reset();
    EXPECT_TRUE(test::run_until(io, [&] { return opencl().pid == 0; })) << n;
    EXPECT_EQ(opencl().state == fleet::WorkerState::disabled, n >= 3) << n;
  }
  EXPECT_NE(opencl().last_error.find("loses its device"), std::string::npos) << opencl().last_error;
  std::ifstream log(loads);
  int lines = 0;
  for (std::string line; std::getline(log, line);) ++lines;
  EXPECT_EQ(lines, 4);  // three of opencl, one of cpu
  std::filesystem::remove(loads);
}

}  // namespace
}  // namespace flyball
