// Streams of the demo model over real worker processes whose GPU fails, at its load or in the middle of an
// answer: the stream goes on with the policy's next target, token for token, and the worker has ended.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/fleet/fleet.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/route/dispatcher.hpp"
#include "tests/backends/worker/loop.hpp"
#include "tests/harness/kernel_caches.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::test {

struct Answer final : route::JobObserver {
  bool on_delta(std::size_t, const Delta& delta) override {
    text += delta.text;
    tokens += delta.tokens.size();
    return true;
  }
  void on_done(std::size_t, const Done&) override { done = true; }
  void on_error(const Error& e) override { error = e.message; }

  std::string text, error;
  std::size_t tokens = 0;
  bool done = false;
  std::vector<route::AttemptRecord> attempts;
  fleet::WorkerStatus worker;  // of the GPU's engine, afterwards
};

// One greedy answer of 40 tokens, by `backend` on the devices of these ids, else by the cpu engine.
// fail_at: as device_fault_engine.cpp reads it; "": nothing fails.
inline Answer ask(const std::string& backend, const std::vector<std::string>& ids,
                  const std::string& fail_at) {
  setenv("XDG_FLYBALL_TEST_FAIL", fail_at.c_str(), 1);
  boost::asio::io_context io;
  config::Config config;
  config::ModelEntry model;
  model.id = "demo";
  model.embedded = true;
  config.models.push_back(model);
  config.cache_dir = kernel_caches();
  config.worker.ready_timeout =
      std::chrono::minutes(10);  // software devices compile, on machines with much to do
  fleet::FleetOptions options;
  options.executable = DEVICE_FAULT_ENGINE;
  options.devices[*config::find_engine_kind(backend)] = ids;
  auto fleet = fleet::make_worker_fleet(io, config, options);
  policy::Facts hardware;
  hardware.set("backend.cpu.available", true, "test");
  hardware.set("backend." + backend + ".available", true, "test");
  metrics::Metrics metrics;
  usage::Journal journal(io, nullptr, {});
  route::Dispatcher dispatcher(io, *fleet, hardware, metrics, journal);
  const policy::Tree tree =
      policy::parse_policy("schema: flyball.policy/v1\ndefault: {because: b, use: [" + backend + ", cpu]}\n",
                           "policy.yaml")
          .value();
  config::AppManifest app;
  app.id = "app";
  CompletionRequest base;
  base.sampling.temperature = 0.0F;
  base.max_tokens = 40;
  base.ignore_eos = true;
  const auto answer = std::make_shared<Answer>();
  ChatPrompt chat;  // engines agree on an answer of which the model is sure
  chat.messages = packed(R"([{"role":"user","content":"Tell me a story about a fox."}])");
  const std::vector<Prompt> prompts{chat};
  auto admission = dispatcher.admit({app, config.models[0], prompts});
  if (!admission) {
    answer->error = admission.error().error.message;
    return *answer;
  }
  auto job = dispatcher.submit({"job", nullptr, tree, app, config.models[0], {}, base, prompts, {}, 1},
                               std::move(*admission), answer);
  EXPECT_TRUE(run_until(
      io, [&] { return answer->done || !answer->error.empty(); }, std::chrono::minutes(15)));
  answer->attempts = job->receipt().attempts;
  const auto ended = [&] {
    for (const auto& worker : fleet->status())
      if (worker.backend == backend) answer->worker = worker;
    return answer->worker.state != fleet::WorkerState::ready;
  };
  if (!fail_at.empty()) {
    EXPECT_TRUE(run_until(io, ended)) << fail_at;
  }
  job.reset();
  return *answer;
}

struct DeviceFault {
  const char *at, *told;  // what the worker's last error names
};

// `weights`: what the receipt says of where they lie; "": nothing.
inline void expect_streams_go_on(const std::string& backend, const std::vector<std::string>& ids,
                                 std::span<const DeviceFault> faults, const std::string& weights = "") {
  const Answer whole = ask(backend, ids, "");
  ASSERT_TRUE(whole.done) << whole.error;
  EXPECT_EQ(whole.tokens, 40U);
  ASSERT_EQ(whole.attempts.size(), 1U);
  EXPECT_EQ(whole.attempts[0].backend, backend);
  ASSERT_EQ(whole.attempts[0].devices.size(), ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i)
    EXPECT_EQ(whole.attempts[0].devices[i].find(ids[i]), 0U) << whole.attempts[0].devices[i];
  EXPECT_NE(whole.attempts[0].devices[0].find(weights), std::string::npos) << whole.attempts[0].devices[0];
  for (const auto& [at, told] : faults) {
    const Answer cut = ask(backend, ids, at);
    ASSERT_TRUE(cut.done) << at << ": " << cut.error;
    EXPECT_EQ(cut.attempts.back().backend, "cpu") << at;
    EXPECT_EQ(cut.tokens, 40U) << at;
    EXPECT_EQ(cut.text, whole.text) << at;
    EXPECT_NE(cut.worker.last_error.find(told), std::string::npos) << at << ": " << cut.worker.last_error;
  }
}

}  // namespace flyball::test
