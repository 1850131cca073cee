// Every row of the documents' guide on three roads: decide(), `flyball advise`, and a request through the
// gateway on a machine that a faked probe reports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "daemon/probe/hardware_facts.hpp"
#include "policy/advice.hpp"
#include "policy/scenario.hpp"
#include "tests/daemon/api/wire.hpp"
#include "tests/policy/decision_guide.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

void expect_warning(const GuideRow& row, const json& warnings) {
  if (row.warning.empty()) return;
  EXPECT_THAT(warnings.dump(), HasSubstr(row.warning));
}

TEST(DecisionGuide, TheRowsAreSane) {
  const auto rows = guide_rows();
  EXPECT_GE(rows.size(), 60U);
  std::set<std::string> ids;
  std::map<std::string, int> by_document;
  for (const GuideRow& row : rows) {
    EXPECT_TRUE(ids.insert(row.id).second) << row.id << " twice";
    const std::string document = row.source.substr(0, row.source.find_first_of(" ,:"));
    bool known = false;
    for (const auto& one : policy::shipped_engines().documents) known |= one.id == document;
    EXPECT_TRUE(known) << row.id << ": " << row.source;
    ++by_document[document];
    EXPECT_TRUE(policy::shipped_engines().find(row.engine)) << row.id << ": " << row.engine;
  }
  EXPECT_EQ(by_document.size(), policy::shipped_engines().documents.size());
}

// What is advised runs on the machine that it is advised for, by the catalogue, or the row says that it is
// meant for another.
TEST(DecisionGuide, TheEnginesRunOnTheirMachines) {
  std::size_t n = 0;
  const auto contains = [](const std::vector<std::string>& all, const std::string& one) {
    return all.empty() || std::find(all.begin(), all.end(), one) != all.end();  // empty: not known
  };
  for (const GuideRow& row : guide_rows()) {
    const policy::EngineEntry& engine = *policy::shipped_engines().find(row.engine);
    if (const policy::EngineEntry* other = policy::shipped_engines().find(row.stand_in)) {
      const bool stands =
          std::any_of(other->here.begin(), other->here.end(),
                      [&](const policy::Target& here) { return to_string(here) == row.target; });
      EXPECT_TRUE(stands) << row.id << ": " << row.target << " stands not for " << row.stand_in;
    } else {
      EXPECT_EQ(row.stand_in, "") << row.id;
    }
    const policy::Fact* os = row.facts.get("hardware.os");
    const policy::Fact* vendor = row.facts.get("hardware.gpu.vendor");
    const bool runs = (!os || contains(engine.platforms, std::get<std::string>(os->value))) &&
                      (!vendor || contains(engine.devices, std::get<std::string>(vendor->value)));
    EXPECT_NE(runs, row.elsewhere) << row.id << ": " << row.engine;
    n += os || vendor;
  }
  EXPECT_GE(n, 60U);
}

TEST(DecisionGuide, ByTheEvaluator) {
  const policy::Tree tree = shipped_policy();
  for (const GuideRow& row : guide_rows()) {
    SCOPED_TRACE(row.id + ", " + row.source);
    policy::Facts facts = row.facts;
    ASSERT_TRUE(policy::complete_scenario(facts));
    const policy::Decision decision = policy::decide(tree, facts);
    ASSERT_TRUE(decision.target);
    EXPECT_EQ(to_string(*decision.target), row.target);
    ASSERT_TRUE(decision.advice);
    EXPECT_EQ(decision.advice->engine, row.engine);
    expect_warning(row, policy::warnings(decision, facts));
  }
}

// ---- the second road: the program -------------------------------------------------------------------------

struct Ran {
  int status = -1;
  std::string out;
};
Ran run(const std::string& arguments) {
  Ran ran;
  FILE* pipe = popen(
      ("env -i HOME=" FLYBALL_BINARY_DIR "/advise-home " FLYBALL_PROGRAM " advise " + arguments).c_str(),
      "r");
  if (!pipe) return ran;
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) ran.out.append(buffer, n);
  const int status = pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

json as_json(const policy::Facts& facts) {
  json out = json::object();
  const auto catalogue = facts.targets()->facts();
  for (std::size_t i = 0; i < catalogue.size(); ++i)
    if (const policy::Fact* fact = facts.get(static_cast<policy::FactId>(i)))
      out[std::string(catalogue[i].name)] = std::visit([](const auto& v) { return json(v); }, fact->value);
  return out;
}

// Spelled as in a policy: an engine of its own has the profile in its name.
std::string written(const std::string& backend, const std::string& profile) {
  return backend + (profile.empty() || backend.contains(':') ? "" : ":" + profile);
}

void expect_advice(const GuideRow& row, const Ran& ran) {
  ASSERT_EQ(ran.status, 0);
  const json advice = json::parse(ran.out, nullptr, false);
  ASSERT_TRUE(advice.is_object()) << ran.out;
  EXPECT_EQ(advice["engine"], row.engine);
  EXPECT_EQ(written(advice["target"], advice["profile"]), row.target);
  EXPECT_TRUE(advice["rule"].is_string());
  EXPECT_FALSE(advice["because"].get<std::string>().empty());
  EXPECT_EQ(advice["path"].back(), advice["rule"]);
  expect_warning(row, advice["warnings"]);
}

TEST(DecisionGuide, ByTheProgramWithFacts) {
  const auto file = std::filesystem::temp_directory_path() / ("guide-" + std::to_string(getpid()) + ".json");
  for (const GuideRow& row : guide_rows()) {
    SCOPED_TRACE(row.id + ", " + row.source);
    std::ofstream(file) << as_json(row.facts);
    expect_advice(row, run("--json --facts " + file.string()));
  }
  std::filesystem::remove(file);
}

TEST(DecisionGuide, ByTheProgramInWords) {
  std::size_t n = 0;
  for (const GuideRow& row : guide_rows()) {
    if (row.words.empty()) continue;
    ++n;
    SCOPED_TRACE(row.id + ": " + row.words);
    expect_advice(row, run("--json '" + row.words + "'"));
  }
  EXPECT_GE(n, 60U);
}

// ---- the third road: a request ----------------------------------------------------------------------------

template <class T>
std::optional<T> value(const policy::Facts& facts, const char* name) {
  const policy::Fact* fact = facts.get(name);
  return fact ? std::optional<T>(std::get<T>(fact->value)) : std::nullopt;
}

// What the probe would say of the row's machine. Every GPU shows by both APIs.
probe::HardwareReport faked_probe(const policy::Facts& facts) {
  probe::HardwareReport report;
  const auto memory = value<std::int64_t>(facts, "hardware.memory.total").value_or(0);
  report.cpu = {"Faked processor",
                "avx2",
                8,
                16,
                static_cast<std::uint64_t>(memory),
                static_cast<std::uint64_t>(memory / 2),
                10,
                40};
  const auto add = [&](const char* kind, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      DeviceReport device;
      device.name = std::string("Faked ") + kind;
      device.vendor = value<std::string>(facts, "hardware.gpu.vendor").value_or("other");
      device.kind = kind;
      device.driver = "Faked driver 1";
      device.memory_bytes =
          static_cast<std::uint64_t>(value<std::int64_t>(facts, "hardware.gpu.memory").value_or(8LL << 30));
      device.unified = std::string(kind) == "integrated";
      device.dispatched = true;
      device.id = device.name + "#" + std::to_string(i);
      report.devices[config::kVulkan].devices.push_back(device);
      report.devices[config::kOpenCl].devices.push_back(device);
    }
  };
  add("discrete", value<std::int64_t>(facts, "hardware.gpu.discrete_count").value_or(0));
  add("integrated", value<std::int64_t>(facts, "hardware.gpu.integrated_count").value_or(0));
  return report;
}

// The row's workload as the manifest that declares it.
config::AppManifest manifest(const policy::Facts& facts) {
  std::string yaml = "schema: flyball.app/v1\napp: alice\nprivacy: any\nworkload:\n  output_tokens: 100\n";
  const json all = as_json(facts);
  for (const auto& [name, v] : all.items())
    if (name.starts_with("workload.") && name != "workload.output_tokens")
      yaml += "  " + name.substr(9) + ": " + v.dump() + "\n";
  auto app = config::parse_app(yaml, "alice.yaml");
  EXPECT_TRUE(app) << app.error().where << ": " << app.error().message << "\n" << yaml;
  return app.value_or(config::AppManifest{});
}

// What neither a probe of this release nor a manifest can say: the fact is set as the probe's would be.
void overlay(const policy::Facts& row, policy::Facts& hardware) {
  const auto catalogue = row.targets()->facts();
  for (std::size_t i = 0; i < catalogue.size(); ++i) {
    const auto id = static_cast<policy::FactId>(i);
    const std::string_view name = catalogue[i].name;
    const bool beyond = name == "hardware.os" || name == "hardware.cluster.nodes" ||
                        name == "hardware.rented" || name == "model.format" || name.starts_with("backend.");
    if (const policy::Fact* fact = row.get(id); fact && beyond) hardware.set(id, fact->value, "faked");
  }
}

TEST(DecisionGuide, ByARequestOnAFakedMachine) {
  for (const GuideRow& row : guide_rows()) {
    SCOPED_TRACE(row.id + ", " + row.source);
    auto settings = make_settings();
    settings->tree = std::make_shared<const policy::Tree>(shipped_policy());
    const config::AppManifest app = manifest(row.facts);
    settings->apps[0].workload = app.workload;
    settings->apps[0].privacy = app.privacy;
    policy::Facts hardware =
        policy::in_catalogue(probe::facts_of(faked_probe(row.facts), {}), row.facts.targets());
    overlay(row.facts, hardware);
    Rig rig(settings, std::move(hardware));
    BackendInfo& loaded = rig.cpu().info_of_the_model();
    loaded.mixture_of_experts = value<bool>(row.facts, "model.moe").value_or(false);
    loaded.weight_bytes =
        static_cast<std::uint64_t>(value<std::int64_t>(row.facts, "model.bytes").value_or(1000));
    loaded.parameters =
        static_cast<std::uint64_t>(value<std::int64_t>(row.facts, "model.parameters").value_or(1));
    Wire wire(rig);
    wire.send(post("/v1/chat/completions", kHello));
    const Answer answer = wire.answer();
    ASSERT_EQ(answer.status, 200) << answer.body;
    Wire asking(rig);
    asking.send(get("/v1/route/receipts/" + answer.field("x-request-id")));
    json receipt = json::parse(asking.answer().body, nullptr, false);
    ASSERT_TRUE(receipt.is_object());
    if (receipt.contains("receipt")) receipt = receipt["receipt"];
    const std::string backend = receipt["target"]["backend"];
    EXPECT_EQ(written(backend, receipt["target"]["profile"]), row.target);
    EXPECT_EQ(receipt["engine"]["id"], row.engine);
    if (!row.warning.empty()) expect_warning(row, receipt["warnings"]);
    EXPECT_THAT(answer.field("x-flyball-route"), HasSubstr("backend=" + backend + ";"));
  }
}

// ---- what is denied stays denied --------------------------------------------------------------------------

TEST(DecisionGuide, NoRowAndNoRuleEverTakesOllama) {
  const policy::Tree tree = shipped_policy();
  const auto check = [](const auto& self, const policy::Rule& rule) -> void {
    EXPECT_NE(rule.engine, "ollama") << rule.id;
    for (const policy::Rule& child : rule.rules) self(self, child);
  };
  for (const policy::Rule& rule : tree.rules) check(check, rule);
  const auto named = policy::parse_policy(
      "schema: flyball.policy/v1\ndefault: {because: b, engine: ollama, use: cpu}\n", "p.yaml");
  ASSERT_FALSE(named);
  EXPECT_THAT(named.error().message, HasSubstr("denied: it hides the engine and the kernels"));
  EXPECT_EQ(named.error().where, "p.yaml:2:31");
}

}  // namespace
}  // namespace flyball::testing
