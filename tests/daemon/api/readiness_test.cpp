// The answer of /readyz to each way in which models can be there or not.
#include "daemon/api/readiness.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace flyball::testing {
namespace {

using fleet::WorkerState;
using fleet::WorkerStatus;
using nlohmann::json;
using std::chrono::milliseconds;

struct ReadinessTest : ::testing::Test {
  config::Config config;
  std::map<std::string, Error> troubles;  // with the models' files
  std::vector<std::string> engines{"cpu"};

  ReadinessTest() {
    config.models.resize(2);
    config.models[0].id = "one";
    config.models[0].aliases = {"first"};
    config.models[1].id = "two";
  }

  static WorkerStatus worker(std::string model, WorkerState state, std::string error = {},
                             std::string engine = "cpu") {
    WorkerStatus out;
    out.model = std::move(model);
    out.backend = std::move(engine);
    out.state = state;
    out.last_error = std::move(error);
    return out;
  }
  static WorkerStatus refused(std::string model) {
    WorkerStatus out = worker(std::move(model), WorkerState::backoff, "no memory");
    out.load_refused = true;
    out.pause = milliseconds(1500);
    return out;
  }
  static WorkerStatus invalid(std::string model) {
    WorkerStatus out = worker(std::move(model), WorkerState::stopped, "not a GGUF file");
    out.invalid = true;
    return out;
  }
  std::string status(const std::vector<WorkerStatus>& workers, bool draining = false) const {
    const http::Response answer = api::readiness_view({config, troubles, engines, workers}, draining, false);
    const json body = json::parse(answer.body);
    const std::string said = body["status"];
    EXPECT_EQ(answer.status, said == "ready" ? 200 : 503);
    EXPECT_EQ(body.size(), 1U) << "no details for everybody";
    return said;
  }
};

TEST_F(ReadinessTest, APreloadedModelIsAwaitedWhileItIsComing) {
  config.models[0].preload = true;
  EXPECT_EQ(status({}), "loading");
  EXPECT_EQ(status({worker("one", WorkerState::stopped)}), "loading");
  EXPECT_EQ(status({worker("one", WorkerState::starting, "died")}), "loading");
  EXPECT_EQ(status({worker("one", WorkerState::backoff, "died")}), "loading") << "it restarts by itself";
  EXPECT_EQ(status({refused("one"), worker("one", WorkerState::starting, "", "vulkan")}), "loading");
  EXPECT_EQ(status({worker("one", WorkerState::ready)}), "ready");
  EXPECT_EQ(status({refused("one"), worker("one", WorkerState::ready, "", "vulkan")}), "ready");
  EXPECT_EQ(status({worker("one", WorkerState::ready), invalid("two")}), "ready") << "nobody waits for two";
}

TEST_F(ReadinessTest, APreloadedModelThatTheOperatorUnloadedIsNotAwaited) {
  config.models[0].preload = true;
  WorkerStatus unloaded = worker("one", WorkerState::stopped);
  unloaded.unloaded = true;
  EXPECT_EQ(status({unloaded}), "ready");
  unloaded.state = WorkerState::starting;  // asked for again
  EXPECT_EQ(status({unloaded}), "loading");
}

TEST_F(ReadinessTest, APreloadedModelThatNobodyTriesAgainHasFailed) {
  config.models[0].preload = true;
  EXPECT_EQ(status({refused("one")}), "failed");
  EXPECT_EQ(status({worker("one", WorkerState::stopped, "no memory")}), "failed") << "its backoff is over";
  EXPECT_EQ(status({worker("one", WorkerState::disabled, "died")}), "failed");
  EXPECT_EQ(status({invalid("one")}), "failed");
  config.models[1].preload = true;
  EXPECT_EQ(status({worker("one", WorkerState::starting), invalid("two")}), "failed");
}

TEST_F(ReadinessTest, TheDefaultModelNeedsAnEngineThatCanServeIt) {
  config.default_model = "first";  // by its alias
  EXPECT_EQ(status({}), "ready") << "the first request loads it";
  EXPECT_EQ(status({worker("one", WorkerState::stopped, "no memory")}), "ready")
      << "the next one tries again";
  EXPECT_EQ(status({worker("one", WorkerState::backoff, "died")}), "ready")
      << "requests wait for its restart";
  EXPECT_EQ(status({worker("one", WorkerState::disabled, "died")}), "failed");
  EXPECT_EQ(status({refused("one")}), "failed");
  EXPECT_EQ(status({invalid("one")}), "failed");
  EXPECT_EQ(status({invalid("two")}), "ready");
  engines = {"cpu", "vulkan"};
  EXPECT_EQ(status({worker("one", WorkerState::disabled, "died")}), "ready") << "another engine can be tried";
  EXPECT_EQ(status({worker("one", WorkerState::disabled, "died"),
                    worker("one", WorkerState::disabled, "died", "vulkan")}),
            "failed");
}

TEST_F(ReadinessTest, WithoutADefaultModelTheOnlyOneOrAnyOneHasToBeServed) {
  EXPECT_EQ(status({worker("one", WorkerState::disabled, "died")}), "ready");
  EXPECT_EQ(status({worker("one", WorkerState::disabled, "died"), invalid("two")}), "failed");
  config.models.pop_back();
  EXPECT_EQ(status({worker("one", WorkerState::disabled, "died")}), "failed");
  EXPECT_EQ(status({worker("one", WorkerState::ready)}, true), "draining");
}

TEST_F(ReadinessTest, AModelWhoseFileIsWrongCannotBeServedUntilAnEngineHasLoadedIt) {
  config.models[0].path = "/models/one.gguf";
  config.default_model = "one";
  troubles["one"] = {ErrorCode::model_invalid, "not a GGUF file", {}, {}};
  EXPECT_EQ(status({}), "failed");
  const auto seen = [&](std::vector<WorkerStatus> workers) {
    return api::ModelsSeen{config, troubles, engines, std::move(workers)};
  };
  const auto body = json::parse(api::readiness_view(seen({}), false, true).body);
  EXPECT_EQ(body["models"]["one"],
            json::parse(R"({"state":"invalid","error":"/models/one.gguf: not a GGUF file"})"));
  using Unavailable = std::map<std::string, std::string>;
  EXPECT_EQ(api::unavailable_models(seen({})), (Unavailable{{"one", "the model's file is damaged"}}));
  EXPECT_EQ(api::unavailable_models(seen({invalid("two")})),
            (Unavailable{{"one", "the model's file is damaged"},
                         {"two", "no engine could load the model's file"}}));
  // Somebody put the right file there, and an engine has served it since.
  WorkerStatus served = worker("one", WorkerState::stopped);
  EXPECT_EQ(status({served}), "failed");
  served.was_ready = true;
  for (const WorkerState state : {WorkerState::ready, WorkerState::stopped}) {
    served.state = state;
    EXPECT_EQ(status({served}), "ready");
    EXPECT_TRUE(api::unavailable_models(seen({served})).empty());
  }
}

// The next request looks again, so the daemon stays open for it.
TEST_F(ReadinessTest, AModelWhoseFileIsAbsentIsNamedAndAwaitsARequest) {
  config.models[0].path = "/models/one.gguf";
  config.default_model = "one";
  troubles["one"] = {ErrorCode::io_error, "No such file", {}, {}};
  EXPECT_EQ(status({}), "ready");
  const api::ModelsSeen seen{config, troubles, engines, {}};
  EXPECT_EQ(json::parse(api::readiness_view(seen, false, true).body)["models"]["one"],
            json::parse(R"({"state":"unloaded","error":"/models/one.gguf: No such file"})"));
  EXPECT_EQ(api::unavailable_models(seen).at("one"),
            "the model's file is absent, or the daemon may not read it");
  troubles["one"].code = ErrorCode::model_unavailable;  // a slow disk says nothing of the file
  EXPECT_TRUE(api::unavailable_models(seen).empty());
}

TEST_F(ReadinessTest, DetailsSayWhyOfEachModelAndEngine) {
  config.models[0].preload = true;
  engines = {"cpu", "vulkan"};
  WorkerStatus disabled = worker("one", WorkerState::disabled, "died 3 times", "vulkan");
  disabled.pause = milliseconds(60'000);
  WorkerStatus waits = worker("one", WorkerState::starting);
  waits.waits_for_memory = true;
  const auto body = json::parse(
      api::readiness_view({config, troubles, engines, {waits, disabled, refused("two")}}, false, true).body);
  EXPECT_EQ(body, json::parse(R"({"status":"loading","models":{
    "one":{"state":"waiting_for_memory","engines":{
      "cpu":{"state":"waiting_for_memory"},
      "vulkan":{"state":"disabled","for_ms":60000,"error":"died 3 times"}}},
    "two":{"state":"unloaded","engines":{"cpu":{"state":"load_refused","for_ms":1500,"error":"no memory"}}}}})"));
}

TEST_F(ReadinessTest, LoadedModelsHaveTheirMemoryAndTheTimeThatIsLeft) {
  const auto ready = [&](const std::string& model, const std::string& engine, std::uint64_t bytes) {
    WorkerStatus out = worker(model, WorkerState::ready, {}, engine);
    out.info.digest = "d";
    out.account_bytes = bytes;
    return out;
  };
  const auto seen = [&](std::vector<WorkerStatus> workers) {
    return api::loaded_models({config, troubles, engines, std::move(workers)});
  };
  EXPECT_TRUE(seen({worker("one", WorkerState::starting)}).empty());
  const auto alone = seen({ready("one", "cpu", 10)}).at("one");
  EXPECT_EQ(alone.digest, "d");
  EXPECT_EQ(alone.bytes, 10U);
  EXPECT_EQ(alone.device_bytes, 0U) << "the CPU engine has no device";
  EXPECT_FALSE(alone.ends_in) << "no idle_unload: never";

  config.memory.idle_unload = milliseconds(60'000);
  config.models[1].idle_unload = milliseconds(0);
  WorkerStatus cpu = ready("one", "cpu", 10), vulkan = ready("one", "vulkan", 7);
  vulkan.idle = milliseconds(20'000);
  EXPECT_EQ(seen({vulkan}).at("one").ends_in, milliseconds(40'000));
  const auto both = seen({vulkan, cpu}).at("one");
  EXPECT_EQ(both.bytes, 17U);
  EXPECT_EQ(both.device_bytes, 7U);
  EXPECT_EQ(both.ends_in, milliseconds(60'000)) << "the one at work is the last to end";
  cpu.pinned = true;
  EXPECT_FALSE(seen({cpu, vulkan}).at("one").ends_in);
  EXPECT_FALSE(seen({vulkan, cpu}).at("one").ends_in);
  cpu.ending = true;
  EXPECT_EQ(seen({vulkan, cpu}).at("one").ends_in, milliseconds(40'000));
  vulkan.idle = milliseconds(70'000);
  EXPECT_EQ(seen({vulkan}).at("one").ends_in, milliseconds(0));
  EXPECT_FALSE(seen({ready("two", "cpu", 1)}).at("two").ends_in) << "the model's own idle_unload";
  vulkan.info.digest = "e";
  EXPECT_EQ(seen({vulkan, cpu}).at("one").digest, "");
}

}  // namespace
}  // namespace flyball::testing
