// x-slo-ttft-ms and x-slo-tpot-ms at every route that decides.
#include <string>

#include <nlohmann/json.hpp>

#include "tests/daemon/api/inference.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr const char* kPolicy = R"(rules:
  - {id: fast, because: b, when: {all: [{fact: app.slo.ttft, lt: 500ms}, {fact: app.slo.tpot, lt: 50ms}]}, use: vulkan}
default: {because: b, use: cpu}
)";

struct SloFields : ::testing::Test {
  SloFields() {
    settings->tree = tree_of(kPolicy);
    settings->apps[0].slo.ttft = 500ms;
    settings->apps[0].slo.tpot = 40ms;
  }
  std::shared_ptr<settings::Settings> settings = make_settings();
  Answer ask(std::string_view path, const std::string& fields) {
    Rig rig(settings, make_hardware(true));
    const bool chat = path != "/v1/completions";
    Wire wire(rig);
    wire.send(post(path, chat ? kHello : R"({"model":"demo","prompt":"Hi"})", "key-alice", fields));
    return wire.answer();
  }
  json fact(const std::string& fields, const std::string& name) {
    const json receipt = json::parse(ask("/v1/route/explain", fields).body);
    for (const json& row : receipt["facts"])
      if (row["name"] == name) return row;
    return {};
  }
};

TEST_F(SloFields, EveryRouteThatDecidesTakesThem) {
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/v1/route/explain"}) {
    EXPECT_EQ(ask(path, "").field("x-flyball-route"), "backend=cpu; rule=default; model=demo") << path;
    EXPECT_EQ(ask(path, "X-SLO-TTFT-ms: 499\r\n").field("x-flyball-route"),
              "backend=vulkan; rule=fast; model=demo")
        << path;
  }
}

TEST_F(SloFields, AnythingButAWholeNumberWithinTheLimitsIsRefused) {
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/v1/route/explain"})
    for (const std::string name : {"x-slo-ttft-ms", "x-slo-tpot-ms"})
      for (const std::string value :
           {"", "0", "-5", "+5", "600001", "99999999999999999999", "1.5", "5ms", "0x10", "1 2", "5,5"}) {
        const Answer answer = ask(path, name + ": " + value + "\r\n");
        EXPECT_EQ(answer.status, 400) << path << " " << name << " " << value;
        const json error = json::parse(answer.body)["error"];
        EXPECT_EQ(error["code"], "invalid_value");
        EXPECT_EQ(error["param"], name);
        EXPECT_EQ(error["message"], "The header " + name + " is \"" + value +
                                        "\"; it must be a whole number of milliseconds, 1 to 600000.");
      }
  for (const char* value : {"1", "600000"})
    EXPECT_EQ(ask(kChatPath, "x-slo-tpot-ms: " + std::string(value) + "\r\n").status, 200) << value;
}

TEST_F(SloFields, TwoOfOneAreAmbiguous) {
  const Answer answer = ask(kChatPath, "x-slo-ttft-ms: 100\r\nx-slo-ttft-ms: 100\r\n");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(json::parse(answer.body)["error"]["message"],
            "The header x-slo-ttft-ms is there twice: send one.");
}

TEST_F(SloFields, TheStricterHoldsForEachFigure) {
  const std::string both = "x-slo-ttft-ms: 400\r\nx-slo-tpot-ms: 100\r\n";
  EXPECT_EQ(fact(both, "app.slo.ttft")["value"], 400);
  EXPECT_EQ(fact(both, "app.slo.ttft")["source"], "request");
  EXPECT_EQ(fact(both, "app.slo.tpot")["value"], 40);
  EXPECT_EQ(fact(both, "app.slo.tpot")["source"], "manifest");
  EXPECT_EQ(fact("x-slo-ttft-ms: 500\r\n", "app.slo.ttft")["source"], "manifest") << "no stricter";
}

}  // namespace
}  // namespace flyball::testing
