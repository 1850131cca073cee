#include "daemon/settings/descriptors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config.hpp"
#include "daemon/http/server.hpp"
#include "policy/tree.hpp"

namespace flyball::settings {
namespace {

config::Config with_models(std::size_t n) {
  config::Config config;
  config.listeners.emplace_back();
  config.models.resize(n);
  return config;
}

TEST(Descriptors, ConnectionsStayAsConfiguredWhereTheyFit) {
  EXPECT_EQ(connections_within(65'536, with_models(3)), 4096U);
}

TEST(Descriptors, EverythingFitsUnderTheLimit) {
  for (const std::uint64_t files : {64U, 100U, 256U, 1024U, 4096U, 4700U}) {
    const auto config = with_models(2);
    const auto fit = connections_within(files, config);
    ASSERT_TRUE(fit) << files;
    const auto all = [&](std::size_t connections) {
      return reserved_descriptors(config) + connections + http::leaving_connections(connections);
    };
    EXPECT_LE(all(*fit), files);
    if (*fit == config.http.connections) continue;
    EXPECT_GT(all(*fit + 1), files) << "no connection is given away";
  }
}

TEST(Descriptors, EveryModelKeepsRoomForItsWorkers) {
  const auto few = connections_within(1024, with_models(1)), many = connections_within(1024, with_models(11));
  ASSERT_TRUE(few && many);
  const auto all = [](std::size_t n) { return n + http::leaving_connections(n); };
  EXPECT_EQ(all(*few) - all(*many), 10 * (1 + 2 * config::kEngineKinds.size()));
}

// docs/service.md has these numbers.
TEST(Descriptors, EnginesOfTheirOwnKeepRoomForTheirWorkers) {
  const auto tree = policy::parse_policy(config::default_policy_yaml(), "policy.yaml");
  ASSERT_TRUE(tree);
  const std::size_t own = policy::own_engines_of(*tree->targets).size();
  EXPECT_EQ(own, 4U);
  const auto config = with_models(1);
  EXPECT_EQ(reserved_descriptors(config, own) - reserved_descriptors(with_models(0), own), 15U);
  EXPECT_EQ(connections_within(64, config), 27U);
  EXPECT_EQ(connections_within(64, config, own), 20U);
}

TEST(Descriptors, RefusesALimitThatIsTooLowAndNamesBothNumbers) {
  const auto config = with_models(4);
  const std::uint64_t needed = reserved_descriptors(config) + kFewestConnections + 1;
  const auto refused = connections_within(needed - 1, config);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::config_invalid);
  EXPECT_THAT(refused.error().message,
              ::testing::AllOf(::testing::HasSubstr("may open " + std::to_string(needed - 1) + " files"),
                               ::testing::HasSubstr("needs " + std::to_string(needed) + " for 4 models")));
  EXPECT_EQ(connections_within(needed, config), kFewestConnections);
  EXPECT_FALSE(connections_within(0, config));
}

TEST(Descriptors, FittingReplacesTheConfiguredNumber) {
  auto config = with_models(1);
  ASSERT_TRUE(fit_connections(64, config));
  EXPECT_EQ(config.http.connections, *connections_within(64, with_models(1)));
  config.http.connections = 2;  // an operator's own
  ASSERT_TRUE(fit_connections(64, config));
  EXPECT_EQ(config.http.connections, 2U);
}

}  // namespace
}  // namespace flyball::settings
