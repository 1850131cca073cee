// What a request does when engines fail, as a script of events; and who is asking, as a table of credentials.
#include "daemon/route/attempt.hpp"

#include <gtest/gtest.h>
#include <openssl/sha.h>

#include "config/app_models.hpp"
#include "daemon/apps/registry.hpp"
#include "daemon/http/host_policy.hpp"
#include "tests/daemon/api/fakes.hpp"

namespace flyball::route {
namespace {

Error error(ErrorCode code) {
  return {code, "It failed.", {}, {}};
}
std::string next(const Attempt::Action& action) {
  if (const auto* acquire = std::get_if<Attempt::Acquire>(&action)) return acquire->target->backend;
  return "give up: " + std::string(to_string(std::get<Attempt::GiveUp>(action).error.code));
}
const policy::Target kCpu{"cpu", ""}, kVulkan{"vulkan", "latency"}, kVllm{"vllm", ""};
Delta token(const char* text, Token id = 1) {
  return {text, {id}, {}};
}

TEST(attempt, no_targets) {
  EXPECT_EQ(next(Attempt({}).begin()), "give up: no_target");
}

TEST(attempt, a_death_is_retried_on_the_same_engine_with_what_was_delivered) {
  Attempt a({&kCpu, &kVulkan});
  EXPECT_EQ(next(a.begin()), "cpu");
  a.received(token("ab", 7));
  a.received(token("", 8));
  EXPECT_EQ(next(a.failed(error(ErrorCode::worker_died))), "cpu");
  EXPECT_EQ(a.resume_tokens(), (std::vector<Token>{7, 8}));
  EXPECT_EQ(a.text_bytes(), 2U);
}

TEST(attempt, an_answer_goes_on_with_the_same_weights_alone) {
  Attempt a({&kCpu});
  a.begin();
  EXPECT_FALSE(a.starts_on("old"));
  a.failed(error(ErrorCode::worker_died));
  EXPECT_FALSE(a.starts_on("new")) << "nothing was delivered yet";
  a.received(token("x"));
  a.failed(error(ErrorCode::worker_died));
  EXPECT_FALSE(a.starts_on("new"));
  a.failed(error(ErrorCode::worker_died));
  const auto given_up = a.starts_on("newer");
  ASSERT_TRUE(given_up);
  EXPECT_EQ(given_up->error.code, ErrorCode::worker_died);
}

TEST(attempt, an_echo_goes_on_behind_its_last_token) {
  Attempt a({&kCpu, &kVulkan});
  a.begin();
  EXPECT_FALSE(a.starts_on("old"));
  Delta echo;
  echo.text = "Once upon";
  echo.echoed = 2;
  a.received(echo);
  EXPECT_EQ(next(a.failed(error(ErrorCode::worker_died))), "cpu");
  EXPECT_EQ(a.echoed(), 2U);
  EXPECT_EQ(a.text_bytes(), 0U) << "of the answer there is none";
  EXPECT_FALSE(a.starts_on("old"));
  EXPECT_EQ(next(a.failed(error(ErrorCode::device_lost))), "vulkan");
  EXPECT_TRUE(a.starts_on("new")) << "its first scores are another model's";
}

TEST(attempt, two_deaths_without_a_token_end_it) {
  Attempt a({&kCpu, &kVulkan});
  a.begin();
  EXPECT_EQ(next(a.failed(error(ErrorCode::worker_died))), "cpu");
  EXPECT_EQ(next(a.failed(error(ErrorCode::worker_died))), "give up: worker_died");
}

TEST(attempt, progress_between_deaths_counts_but_attempts_are_bounded) {
  Attempt a({&kCpu});
  a.begin();
  std::string last;
  std::uint32_t rounds = 0;
  for (; rounds < 20; ++rounds) {
    a.received(token("x"));
    last = next(a.failed(error(ErrorCode::worker_died)));
    if (last != "cpu") break;
  }
  EXPECT_EQ(last, "give up: worker_died");
  EXPECT_EQ(rounds + 1, Attempt::kMaxAttempts);
}

TEST(attempt, other_failures_of_an_engine_move_on_and_those_of_the_request_do_not) {
  for (const auto code : {ErrorCode::model_unsupported, ErrorCode::model_unavailable,
                          ErrorCode::insufficient_memory, ErrorCode::device_lost, ErrorCode::overloaded}) {
    Attempt a({&kCpu, &kVulkan});
    a.begin();
    EXPECT_EQ(next(a.unavailable(error(code))), "vulkan");
    EXPECT_EQ(next(a.unavailable(error(code))), "give up: " + std::string(to_string(code)));
  }
  for (const auto code :
       {ErrorCode::model_invalid, ErrorCode::template_error, ErrorCode::context_length_exceeded,
        ErrorCode::invalid_value, ErrorCode::numeric_error, ErrorCode::shutting_down}) {
    Attempt a({&kCpu, &kVulkan});
    a.begin();
    EXPECT_EQ(next(a.failed(error(code))), "give up: " + std::string(to_string(code)));
  }
}

TEST(attempt, EachEngineIsAskedByItsOwnProfile) {
  Attempt a({&kCpu, &kVulkan});
  a.begin();
  EXPECT_EQ(a.target().profile, "");
  a.unavailable(error(ErrorCode::insufficient_memory));
  EXPECT_EQ(a.target().profile, "latency");
}

TEST(attempt, text_without_tokens_cannot_be_resumed) {
  Attempt a({&kVllm, &kCpu});
  a.begin();
  a.received({"text of an upstream", {}, {}});
  EXPECT_EQ(next(a.failed(error(ErrorCode::upstream_timeout))), "give up: upstream_timeout");
  Attempt b({&kVllm, &kCpu});
  b.begin();
  EXPECT_EQ(next(b.failed(error(ErrorCode::upstream_timeout))), "cpu");  // before the first byte
}

}  // namespace
}  // namespace flyball::route

namespace flyball::apps {
namespace {

TEST(registry, credentials) {
  const auto settings = testing::make_settings();
  const Registry registry(settings->apps, settings->config);
  const auto who = [&](Credentials c) {
    const auto app = registry.identify(c);
    return app ? (*app)->id : std::string(to_string(app.error().code));
  };
  EXPECT_EQ(who({"Bearer key-alice", {}, false}), "alice");
  EXPECT_EQ(who({"BEARER key-bobby", {}, false}), "bob");
  EXPECT_EQ(who({"Bearer key-bobby ", {}, false}), "invalid_api_key");
  EXPECT_EQ(who({"Bearer " + std::string(10'000, 'k'), {}, false}), "invalid_api_key");
  EXPECT_EQ(who({"", 4711, false}), "uid");
  EXPECT_EQ(who({"", 0, false}), "invalid_api_key");
  EXPECT_EQ(who({"", {}, true}), "invalid_api_key");
  EXPECT_EQ(who({"Bearer wrong-key", 4711, true}), "invalid_api_key");
}

// A digest in a manifest does not say how long its key is.
TEST(registry, a_key_that_is_too_short_is_nobodys_though_its_digest_is_known) {
  const config::Config config;
  std::vector<config::AppManifest> apps(1);
  apps[0].id = "scripts";
  for (const std::string_view key : {"1234567", "12345678"})
    SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(),
           apps[0].keys.emplace_back().data());
  const Registry registry(apps, config);
  EXPECT_FALSE(registry.identify({"Bearer 1234567", {}, false}));
  const auto app = registry.identify({"Bearer 12345678", {}, false});
  ASSERT_TRUE(app);
  EXPECT_EQ((*app)->id, "scripts");
}

TEST(registry, models_and_caps) {
  const auto settings = testing::make_settings();
  const Registry registry(settings->apps, settings->config);
  const auto &alice = settings->apps[0], &bob = settings->apps[1];
  EXPECT_EQ(registry.model_for(alice, "")->entry->id, "demo");
  EXPECT_EQ(registry.model_for(alice, "default-demo")->entry->id, "demo");
  EXPECT_FALSE(registry.model_for(alice, "demo:7b"));
  EXPECT_EQ(registry.model_for(bob, "nothing").error().message,
            "There is no model \"nothing\" that is open to this app. It may use: small.");
  EXPECT_EQ(*Registry::cap_max_tokens(alice, 0), 0U);
  EXPECT_EQ(*Registry::cap_max_tokens(bob, 0), 100U);
  EXPECT_EQ(*Registry::cap_max_tokens(bob, 100), 100U);
  EXPECT_FALSE(Registry::cap_max_tokens(bob, 101));
}

// A client that adds a tag gets the model of the whole name, if there is one: also where its app may not use
// it.
TEST(registry, a_model_answers_to_its_name_with_the_default_tag) {
  auto settings = testing::make_settings();
  settings->config.models[1].aliases = {"default-demo:latest"};
  const Registry registry(settings->apps, settings->config);
  config::AppManifest app;
  app.models = {"demo"};
  EXPECT_EQ(registry.model_for(app, "demo:latest")->entry->id, "demo");
  EXPECT_FALSE(registry.model_for(app, "default-demo:latest"));
  EXPECT_FALSE(registry.model_for(app, "demo:latest:latest"));
  EXPECT_FALSE(registry.model_for(app, ":latest")) << "which is no name, so that no default_model is meant";
  app.models = {};
  EXPECT_EQ(registry.model_for(app, "default-demo:latest")->entry->id, settings->config.models[1].id);
  EXPECT_EQ(registry.model_for(app, "demo:latest")->name, "demo") << "as policies know it";
  const auto plain = [&](std::string_view name) {
    return config::named_model(settings->config.models, name).name;
  };
  EXPECT_EQ(plain("demo:latest"), "demo");
  EXPECT_EQ(plain("default-demo:latest"), "default-demo:latest");
  EXPECT_EQ(plain("demo:7b"), "demo:7b");
}

TEST(registry, a_manifest_may_name_a_model_by_its_alias) {
  const auto settings = testing::make_settings();
  const Registry registry(settings->apps, settings->config);
  config::AppManifest app;
  app.models = {"default-demo"};
  for (const char* name : {"demo", "default-demo"}) {
    const auto model = registry.model_for(app, name);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->entry->id, "demo");
  }
  EXPECT_FALSE(registry.model_for(app, "small"));
}

TEST(registry, names_the_models_there_are_and_no_more_than_ten) {
  config::Config config;
  for (int i = 0; i < 12; ++i) config.models.emplace_back().id = "m" + std::to_string(i);
  const std::vector<config::AppManifest> apps(1);
  const Registry registry(apps, config);
  const auto none = registry.model_for(apps[0], "");
  EXPECT_EQ(none.error().code, ErrorCode::missing_field);
  EXPECT_EQ(none.error().message,
            "'model' is required: no default_model is open to this app. It may use: m0, m1, m2, m3, m4, m5, "
            "m6, m7, m8, m9 and 2 more.");
}

TEST(registry, a_request_without_a_model_gets_the_default_or_the_only_one_that_is_open) {
  config::Config config;
  for (const char* id : {"secret", "b", "c"}) config.models.emplace_back().id = id;
  config.models[0].aliases = {"usual"};
  config::AppManifest app;
  const std::vector<config::AppManifest> apps;
  const Registry registry(apps, config);
  const auto got = [&](std::vector<std::string> models, std::string default_model) {
    app.models = std::move(models);
    config.default_model = std::move(default_model);
    const auto model = registry.model_for(app, "");
    return model ? model->entry->id
                 : std::string(to_string(model.error().code)) + ": " + model.error().message;
  };
  EXPECT_EQ(got({}, "secret"), "secret");
  EXPECT_EQ(got({"secret", "b"}, "usual"), "secret");
  for (const char* default_model : {"", "secret", "usual"}) {
    EXPECT_EQ(got({"b"}, default_model), "b");
    EXPECT_EQ(got({"b", "c"}, default_model),
              "missing_field: 'model' is required: no default_model is open to this app. It may use: b, c.");
    EXPECT_EQ(got({"gone"}, default_model), "model_not_found: There is no model that is open to this app.");
  }
}

TEST(host_policy, an_allowed_host_may_be_written_with_its_port_or_without_brackets) {
  config::Config config;
  config.allowed_hosts = {"box:8080", "fd00::1"};
  const http::HostPolicy policy(config);
  for (const char* host : {"box", "box:8080", "box:9", "[fd00::1]:8080"})
    EXPECT_TRUE(policy.allows(host)) << host;
  for (const char* host : {"bo", "box.lan", "fd00::1", "[fd00::2]"})
    EXPECT_FALSE(policy.allows(host)) << host;
}

TEST(host_policy, a_listener_on_all_addresses_serves_ip_literals_but_no_names) {
  config::Config config;
  config.listeners.emplace_back().address = "0.0.0.0";
  config.allowed_hosts = {"box.lan"};
  const http::HostPolicy policy(config);
  EXPECT_TRUE(policy.allows("192.168.1.5:8080"));
  EXPECT_TRUE(policy.allows("[fe80::1]"));
  EXPECT_TRUE(policy.allows("BOX.lan:1"));
  EXPECT_FALSE(policy.allows("rebound.example:8080"));
  EXPECT_FALSE(policy.allows("1.2.3.4.evil.example"));
}

}  // namespace
}  // namespace flyball::apps
