#include "daemon/discover/servers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace flyball::discover {
namespace {

using nlohmann::json;
using testing::ElementsAre;

// The kind and version that the first sign gives which these answers fit.
std::string kind_of(const std::map<std::string, json>& answers) {
  for (const ServerSign& sign : server_signs())
    if (const auto it = answers.find(std::string(sign.target)); it != answers.end())
      if (const auto version = version_by(sign, it->second)) return std::string(sign.kind) + " " + *version;
  return "";
}

json models_of(const char* owner) {
  return {{"object", "list"}, {"data", {{{"id", "m"}, {"owned_by", owner}}}}};
}

// Every server has all the answers that it gives to the questions of all kinds.
TEST(Servers, EachKindIsKnownAmongAllItsAnswers) {
  EXPECT_EQ(kind_of({{"/api/version", {{"version", "0.12.6"}}}, {"/v1/models", models_of("library")}}),
            "Ollama 0.12.6");
  EXPECT_EQ(kind_of({{"/api/v0/models", {{"data", json::array()}}},
                     {"/v1/models", models_of("organization_owner")}}),
            "LM Studio ");
  EXPECT_EQ(kind_of({{"/props", {{"default_generation_settings", json::object()}, {"build_info", "b6700"}}},
                     {"/v1/models", models_of("llamacpp")}}),
            "llama-server b6700");
  EXPECT_EQ(kind_of({{"/api/extra/version", {{"result", "KoboldCpp"}, {"version", "1.99"}}},
                     {"/api/version", {{"version", "0.7.0"}}}}),
            "KoboldCpp 1.99");
  EXPECT_EQ(
      kind_of({{"/get_model_info", {{"model_path", "Qwen/Qwen3-8B"}}}, {"/v1/models", models_of("sglang")}}),
      "SGLang ");
  EXPECT_EQ(
      kind_of({{"/.well-known/localai.json", {{"version", "v3.5"}}}, {"/version", {{"version", "v3.5"}}}}),
      "LocalAI v3.5");
  EXPECT_EQ(kind_of({{"/version", {{"version", "0.11.0"}}}, {"/v1/models", models_of("vllm")}}), "vLLM ");
  const json lost{
      {"error", {{"message", "There is nothing at this path. There is: POST /v1/route/explain, ..."}}}};
  EXPECT_EQ(kind_of({{"/v1/route", lost},
                     {"/api/version", {{"version", "0.5.0"}}},
                     {"/v1/models", models_of("flyball")}}),
            "Flyball ");
}

TEST(Servers, OtherAnswersSayNothing) {
  for (const json& answer : {json(), json(3), json::array(), json::object(), json{{"version", 3}},
                             json{{"data", 3}}, json{{"result", "other"}}, json{{"engines", 1}}})
    for (const ServerSign& sign : server_signs())
      EXPECT_FALSE(version_by(sign, answer)) << sign.kind << answer;
}

TEST(Servers, ModelsAreThoseOfTheList) {
  EXPECT_THAT(*models_in({{"data", {{{"id", "a"}}, {{"id", 3}}, 7, {{"id", "b"}}}}}), ElementsAre("a", "b"));
  EXPECT_FALSE(models_in(json::array()));
  EXPECT_FALSE(models_in({{"data", 1}}));
}

TEST(Servers, PortsAreInOrderAndOnce) {
  const auto ports = known_ports();
  EXPECT_TRUE(std::ranges::is_sorted(ports, std::less(), &KnownPort::port));
  EXPECT_EQ(std::ranges::adjacent_find(ports, {}, &KnownPort::port), ports.end());
}

}  // namespace
}  // namespace flyball::discover
